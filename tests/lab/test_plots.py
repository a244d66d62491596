"""Figures: what is drawn, what is said to those who cannot see it, and what travels in the page."""

import base64
import html
import io
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.container import BarContainer, ErrorbarContainer
from PIL import Image

from course_lab import plots
from course_lab.plots import interactive, style
from course_lab.statistics import mean_interval, wins
from course_lib.errors import CourseError
from course_lib.metrics.geometry import mean_cosine

ALT = "Two points on a line, the second one higher than the first."


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def cloud(n=60, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


def animation(F=4, P=30, **changes):
    arguments = {
        "frames": np.stack([(k + 1) * cloud(P, k) for k in range(F)]),
        "group": np.arange(P) % 3,
        "names": ["rare", "between", "the most frequent & common"],
        "captions": [f"step {k}" for k in range(F)],
    }
    return plots.collapse_animation(**arguments | changes)


def data_in(page):
    return json.loads(re.search(r"const data = (\{.*?\});\n", page)[1])


def shown(figure, alt=ALT):
    """The bundle and the metadata that `show` hands to the notebook."""
    with pytest.MonkeyPatch.context() as patch:
        calls = []
        patch.setattr(style, "display", lambda data, **options: calls.append((data, options)))
        plots.show(figure, alt)
    [(data, options)] = calls
    assert options["raw"]
    return data, options["metadata"]


def test_show_gives_one_png_that_carries_its_text_and_closes_the_figure():
    figure = plt.figure()
    data, metadata = shown(figure)
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert metadata["image/png"]["alt"] == data["text/plain"] == ALT
    assert picture.size[0] > 600 and not plt.fignum_exists(figure.number)


def test_a_figure_that_is_not_shown_yet_is_unknown_to_the_notebook():
    plots.lines({"a": [1, 2]}, "x", "y")
    assert not plt.get_fignums()


def test_show_refuses_a_figure_without_words():
    with pytest.raises(CourseError, match="describe the figure in a sentence"):
        plots.show(plots.lines({"a": [1, 2]}, "x", "y"), alt="plot")


def test_the_same_figure_is_the_same_file():
    first, second = (plots.png(plots.cloud(cloud(), np.linspace(1e-5, 1e-2, 60))) for _ in range(2))
    assert first == second and len(first) < 60_000


def test_every_curve_has_its_own_colour_style_and_marker():
    figure = plots.lines({str(i): [1, 2, 3] for i in range(6)}, "x", "y")
    drawn = figure.axes[0].lines
    for feature in ("get_color", "get_marker"):
        assert len({getattr(line, feature)() for line in drawn}) == 6
    assert len({str(line._unscaled_dash_pattern) for line in drawn}) == 6


def test_a_curve_over_seeds_is_their_mean_with_its_interval():
    runs = np.array([[3.0, 2.0, 1.0], [5.0, 2.5, 1.5], [4.0, 3.0, 2.0]])
    ax = plots.lines({"seeds": ([1, 2, 4], runs), "one": [3, 2, 1]}, "epoch", "loss").axes[0]
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[1, 4], [2, 2.5], [4, 1.5]])
    (band,) = ax.collections
    wanted = [mean_interval(column)[1:3] for column in runs.T]
    for x, ends in zip([1, 2, 4], wanted, strict=True):
        heights = {y for at, y in band.get_paths()[0].vertices.tolist() if at == x}
        assert sorted(heights) == pytest.approx(ends)


def test_a_diverged_epoch_leaves_a_gap():
    """A line through it would look like a measurement."""
    curves = {"a": ([3, 1, 2], [1, np.nan, 2]), "b": [1, np.inf, 2]}
    first, second = plots.lines(curves, "epoch", "perplexity").axes[0].lines
    for line in (first, second):
        assert np.isnan(line.get_ydata()[1]) and len(line.get_ydata()) == 3


def test_a_point_that_is_missing_takes_its_size_and_colour_along():
    points, share = np.array([[0, 1], [np.nan, 1], [2, 3.0]]), np.array([1e-4, 1e-3, 1e-2])
    drawn = plots.cloud(points, share=share).axes[0].collections[0]
    seen = ~np.ma.getmaskarray(drawn.get_offsets()).any(axis=1)
    assert drawn.get_offsets()[seen].tolist() == [[0, 1], [2, 3]]
    np.testing.assert_allclose(drawn.get_array()[seen], [-4, -2])
    np.testing.assert_allclose(drawn.get_sizes()[seen], [7, 30])


def test_curves_keep_the_order_of_their_points():
    back = plots.lines({"there and back": ([0, 2, 1, 0], [0, 1, 2, 3])}, "x", "y").axes[0].lines[0]
    assert back.get_xdata().tolist() == [0, 2, 1, 0]


def test_axes_that_share_their_ticks_keep_their_names():
    _, axes = plots.panels(2, 2, sharex=True, sharey=True)
    for ax in axes.flat:
        plots.lines({"a": [1, 2]}, "epoch", "loss", ax=ax)
        assert ax.xaxis.label.get_visible() and ax.yaxis.label.get_visible()


def test_names_that_would_run_into_each_other_are_turned():
    def angles(names):
        groups = {name: [1.0, 2.0] for name in names}
        intervals = {name: (1.5, 1.0, 2.0) for name in names}
        ax = plots.seeds(groups, intervals, "method", "loss").axes[0]
        return {label.get_rotation() for label in ax.get_xticklabels()}

    assert angles("ab") == {0} and angles(["a method of long name", *"bcd"]) == {25}


def test_drawing_moves_no_generator():
    before = np.random.get_state()[1].copy()
    plots.seeds({"a": [1.0, 2.0]}, {"a": (1.5, 1, 2)}, "x", "y")
    plots.lines({"a": np.ones((3, 4))}, "x", "y")
    assert (np.random.get_state()[1] == before).all()


def test_the_palette_survives_paper_and_greyscale():
    """Contrast of at least 3 with the paper; frequency grows darker from rare to frequent."""

    def luminance(colour):
        rgb = np.array(plt.matplotlib.colors.to_rgb(colour))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for colour in [*plots.COLOURS, plots.INK]:
        assert (luminance(plots.PAPER) + 0.05) / (luminance(colour) + 0.05) > 3, colour
    levels = [luminance(plots.FREQUENCY(x)) for x in np.linspace(0, 1, 20)]
    assert (np.diff(levels) < 0).all()


def test_singular_values_are_drawn_relative_to_the_first_and_to_their_number():
    line = plots.singular_values({"W": np.array([4.0, 2.0, 1.0, 0.5])}).axes[0].lines[0]
    np.testing.assert_allclose(line.get_xdata(), [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(line.get_ydata(), [1, 0.5, 0.25, 0.125])


def test_frequency_rank_draws_sorted_shares_and_leaves_out_unseen_words():
    line = plots.frequency_rank([1, 0, 6, 3]).axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), [0.6, 0.3, 0.1])
    np.testing.assert_allclose(line.get_xdata(), [1, 2, 3])


def test_cosine_histogram_is_a_density():
    (outline,) = plots.cosine_histogram({"all": np.full(10, 0.5)}).axes[0].collections
    x, y = outline.get_paths()[0].vertices.T
    area = abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
    assert area == pytest.approx(1)
    high = x[y == y.max()]
    assert high.min() <= 0.5 < high.max() + 1e-9 and np.ptp(high) == pytest.approx(1 / 40)


def test_against_frequency_follows_the_median():
    counts = np.repeat([1, 10, 100, 1000], 5)
    line = plots.against_frequency(np.log10(counts), counts, "log").axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata(), [0, 1, 2, 3])
    np.testing.assert_allclose(line.get_xdata(), [1, 10, 100, 1000])


def test_cloud_draws_the_frequent_words_last_and_names_points():
    share = np.array([1e-2, 1e-5, 1e-3])
    axes = plots.cloud(cloud(3), share, words={0: "the"}).axes[0]
    assert axes.collections[0].get_array().tolist() == pytest.approx([-5, -3, -2])
    assert [t.get_text() for t in axes.texts] == ["origin", "the"]


def test_the_animation_holds_the_points_to_a_thousandth_of_the_view():
    frames = np.stack([(k + 1) * cloud(30, k) for k in range(4)])
    data = data_in(animation().page)
    points = np.frombuffer(base64.b64decode(data["points"]), "<i2").reshape(*data["shape"], 2)
    radius = np.array(data["radius"])[:, None, None]
    inside = np.abs(frames) <= radius
    np.testing.assert_allclose(
        (points / 16_000 * radius)[inside], frames[inside], atol=5e-3 * radius.max()
    )
    assert base64.b64decode(data["group"]) == bytes([0, 1, 2] * 10)


def test_the_animation_is_self_contained_small_and_accessible():
    data, metadata = shown(animation(), "A cloud <grows> & grows")
    page = data["text/html"]
    assert not re.search(r"(src|href)=|https?:|import\(|fetch\(", page)
    assert f'aria-label="{html.escape("A cloud <grows> & grows")}"' in page
    assert 'aria-label="Snapshot"' in page and "<button type=" in page
    assert "prefers-reduced-motion" in page and "the most frequent &amp; common" in page
    assert not re.search(r"@[A-Z]+@", page) and len(page) < interactive.ANIMATION_BYTES
    assert "image/png" in data and metadata["image/png"]["alt"]


def test_two_animations_on_a_page_do_not_share_an_id():
    pages = [animation().page, animation(P=31).page]
    assert len({re.search(r'id="(\w+)"', page)[1] for page in pages}) == 2
    assert animation().page == pages[0]  # and none depends on chance


def test_a_caption_cannot_leave_the_script():
    page = animation(captions=["</script><b>"] * 4).page
    assert page.count("</script>") == 1 and data_in(page)["captions"][0] == "</script><b>"


def test_an_animation_that_is_too_large_or_does_not_fit_says_so():
    with pytest.raises(CourseError, match="fewer points or snapshots"):
        animation(F=60, P=1500)
    with pytest.raises(CourseError, match="4 snapshots of 30 points .* got 3 and 30"):
        animation(captions=["a"] * 3)


def test_many_curves_have_their_legend_outside_the_axes():
    few, many = (plots.lines({str(i): [1, 2] for i in range(n)}, "x", "y") for n in (3, 4))
    assert few.axes[0].get_legend() and not few.legends
    assert not many.axes[0].get_legend() and len(many.legends) == 1


def test_groups_of_points_gives_each_group_its_points_and_marker():
    axes = plots.groups_of_points(cloud(6), np.array([0, 1, 1, 2, 2, 2]), "abc").axes[0]
    assert [len(c.get_offsets()) for c in axes.collections] == [1, 2, 3]
    assert len({c.get_paths()[0].vertices.tobytes() for c in axes.collections}) == 3


def test_arrows_start_at_the_origin_and_look_like_the_curves():
    _, axes = plots.panels(1, 2)
    plots.arrows([[1, 2], [-1, 1]], ["up", "left"], ax=axes[0])
    plots.lines({"up": [1, 2], "left": [1, 2]}, "x", "y", ax=axes[1])
    stems, curves = axes[0].lines[::2], axes[1].lines
    assert [stem.get_xydata().tolist() for stem in stems] == [[[0, 0], [1, 2]], [[0, 0], [-1, 1]]]
    assert [s.get_color() for s in stems] == [c.get_color() for c in curves]
    assert [t.get_text() for t in axes[0].texts] == ["up", "left"]


def test_states_are_numerals_and_class_vectors_keep_their_directions():
    states, classes = 3 * cloud(20), np.array([[1.0, 0.0], [0.0, 2.0]])
    axes = plots.states_and_classes(states, np.arange(20) % 2, classes).axes[0]
    assert [line.get_marker() for line in axes.lines[:4:2]] == ["$0$", "$1$"]
    tips = np.array([t.xy for t in axes.texts if t.arrow_patch])
    longest = np.linalg.norm(states, axis=1).max()
    np.testing.assert_allclose(tips, classes / 2 * longest)
    short = np.array([[1.0, 0.0], [0.0, 0.2], [0.01, 0.2]])  # the last two would lie on each other
    axes = plots.states_and_classes(states, np.arange(20) % 3, short).axes[0]
    spots = {t.get_text(): np.array(t.xyann) for t in axes.texts if t.get_text().isdigit()}
    apart = [np.linalg.norm(spots[a] - spots[b]) for a, b in ("01", "02", "12")]
    assert min(apart) >= 0.179 * longest


def test_a_colour_keeps_its_meaning_and_no_other_name_takes_it():
    drawn = style.colours(["sigma", "cosine, rare words", "500 most frequent", "rarely"])
    assert drawn[1] == style.COLOURS[style.MEANING["rare"]]
    assert drawn[2] == style.COLOURS[style.MEANING["frequent"]]
    assert len(set(drawn)) == 4
    axes = plots.lines({"x": [1, 2], "rare words": [2, 1]}, "x", "y").axes[0]
    assert axes.lines[1].get_color() == drawn[1]


def test_a_view_of_one_scale_is_that_of_the_widest_snapshot():
    page = animation(one_scale=True).page
    radius = json.loads(re.search(r'"radius": ?(\[.*?\])', page)[1])
    assert len(set(radius)) == 1
    assert radius[0] == pytest.approx(np.abs(4 * cloud(30, 3)).max(), rel=0.01)


def test_a_toy_layer_turns_contexts_of_every_length():
    names, vectors = ["up", "right"], np.array([[0.0, 1.0], [2.0, 0.0]])
    drawn = plots.toy_layer(vectors, names, [0.5, 2], start=1)
    arrows, turning = drawn.last.axes
    assert [list(line.get_xdata()) for line in arrows.lines] == [[0, 0], [0, 2]]
    up, right = (line.get_ydata() for line in turning.lines)
    degrees = turning.lines[0].get_xdata()
    logits = 2 * np.sin(np.radians(degrees)), 4 * np.cos(np.radians(degrees))
    assert up == pytest.approx(1 / (1 + np.exp(logits[1] - logits[0])))
    assert up + right == pytest.approx(1)
    at = {text.get_text(): text.xy for text in turning.texts}
    assert at["right"][1] == pytest.approx(right.max(), abs=0.01)
    assert at["up"][1] == pytest.approx(up.max(), abs=0.01)
    assert {text.get_text(): text.xy for text in arrows.texts} == {"up": (0, 1), "right": (2, 0)}
    ends, tops = (panel["curves"] for panel in data_in(drawn.page)["panels"])
    assert [curve["labels"] for curve in ends] == [[[1, 1]], [[1, 1]]]
    assert [len(curve["labels"]) for curve in tops] == [2, 2]  # one for each length
    assert [panel["square"] for panel in data_in(drawn.page)["panels"]] == [True, False]
    assert arrows.get_box_aspect() == 1 and turning.get_box_aspect() is None


def test_a_small_softmax_has_fewer_singular_values_than_the_truth():
    random = np.random.default_rng(0)
    scores = [random.normal(size=(30, d)) @ random.normal(size=(d, 40)) for d in (2, 6)]
    small, truth = (x - np.logaddexp.reduce(x, axis=1, keepdims=True) for x in scores)
    told = ["small", "the truth itself"]
    drawn = plots.bottleneck_explorer(truth, [small, truth], [2, 6], told, d=2)
    values, words = drawn.last.axes
    true, fitted = (line.get_ydata() for line in values.lines)
    assert true[0] == fitted[0] == 1
    assert (fitted > 1e-12).sum() == 3 < (true > 1e-12).sum()  # one for the normaliser
    true, fitted = (line.get_ydata() for line in words.lines)
    least = truth.max(1).argmin()
    context = truth[least]
    assert true == pytest.approx(np.exp(np.sort(context)[:-11:-1]))
    assert fitted[0] == pytest.approx(np.exp(small[least, context.argmax()]))
    assert data_in(drawn.page)["captions"] == told


def test_a_name_stands_in_the_middle_of_a_plateau_and_beyond_an_end():
    assert interactive._label(np.array([0, 1, 1, 1, 0.5, 1]), "top") == (2, 1)
    assert interactive._label(np.array([0, 1.0, 2.0]), "top") == (2, 1)
    assert interactive._label(np.array([0, -1.0]), "end") == (1, -1)


def test_captions_tell_the_greatest_probability():
    names, vectors = ["up", "right"], np.array([[0.0, 1.0], [2.0, 0.0]])
    drawn = plots.toy_layer(vectors, names, [0.5, 2], start=1)
    right = drawn.last.axes[1].lines[1].get_ydata()
    captions = data_in(drawn.page)["captions"]
    assert captions[0].startswith("Length 0.5: ") and f"to {right.max():.2f}." in captions[1]


def test_the_wedge_holds_exactly_the_negative_directions():
    plane = np.array([[1.0, 0.5], [2.0, -0.5], [1.5, 1.0]])
    figure = plots.hull_and_loss(plane, np.array([-1.0, 0.0]), {"along v": ([0, 1], [1, 0])})
    wedge = figure.axes[0].patches[1].get_xy()[1:-1]
    assert len(wedge) > 100 and (wedge @ plane.T < 0).all()


def test_the_outline_of_a_moving_hull_goes_round_its_contexts():
    square = np.array([[1.0, 1], [3, 1], [3, 3], [1, 3], [2, 2]])
    moving = plots.moving_hull([square, square - 4], [[-1, -1], [1, 1]], ["a", "b"])
    data = data_in(moving.page)
    group = np.frombuffer(base64.b64decode(data["group"]), "u1")
    points = np.frombuffer(base64.b64decode(data["points"]), "<i2").reshape(2, -1, 2)[-1]
    points = points / 16_000 * data["radius"][-1]
    outline, contexts, v = (points[group == number] for number in range(3))
    np.testing.assert_allclose(contexts, square - 4, atol=1e-3)
    np.testing.assert_allclose(v[[0, -1]], [[0, 0], [1, 1]], atol=1e-3)
    np.testing.assert_allclose(v[:, 0], v[:, 1], atol=1e-3)
    assert len(v) > 10  # a line to v
    assert np.abs(np.abs(outline + 2) - 1).min(1).max() < 1e-3  # on the sides of the square


def test_on_paper_a_moving_hull_is_a_polygon_with_an_arrow():
    square = np.array([[1.0, 1], [3, 1], [3, 3], [1, 3], [2, 2]])
    ax = plots.moving_hull([square, square - 4], [[-1, -1], [1, 1]], ["a", "b"]).last.axes[0]
    corners = {tuple(corner) for corner in ax.patches[0].get_xy().tolist()}
    assert corners == {tuple(corner) for corner in (square[:4] - 4).tolist()}
    assert ax.lines[0].get_xydata().tolist() == (square - 4).tolist()
    assert ax.lines[1].get_xydata().tolist() == [[1.3, 1.3]]  # room for the arrow to (1, 1)
    assert "v" in [text.get_text() for text in ax.texts]
    nowhere = plots.moving_hull([square], [torch.zeros(2)], ["a"]).last.axes[0]
    assert "v" not in [text.get_text() for text in nowhere.texts]  # no direction there


def test_what_beats_the_moved_target_lies_in_the_shaded_half_plane():
    words = np.array([[1.0, 0.0], [0.6, 0.0], [0.8, 3.0]])
    figure = plots.moved_targets(words, 0.3, {"right": 0, "up": 90})
    shade, disc = figure.axes[0].patches[:2]
    inside = shade.get_path().contains_points(words)
    assert inside.tolist() == [True, False, True]  # logits 1, 0.6 and 0.8; moved 0.7
    assert disc.get_path().vertices[:, 0].min() == pytest.approx(0.7, abs=1e-3)


def test_methods_beside_each_other_share_one_legend_and_the_plain_level():
    curves = {name: {"none": [1, 2], "hidden": [2, 1]} for name in ("excess", "length")}
    figure = plots.beside_each_other(curves, "α", plain=[1.5, 3.0])
    assert [ax.get_legend() for ax in figure.axes] == [None, None]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [
        "none",
        "hidden",
        "plain softmax",
    ]
    assert [ax.lines[-1].get_ydata()[0] for ax in figure.axes] == [1.5, 3.0]


def test_the_diagonal_spans_the_points():
    points = {"d = 2": ([0.1, 1.0], [0.05, 0.5]), "d = 8": ([0.1, 0.4], [0.05, 0.2])}
    ax = plots.below_the_diagonal(points, "distance", "margin").axes[0]
    assert list(ax.lines[-1].get_xdata()) == list(ax.lines[-1].get_ydata()) == [0, 1.0]


def test_pairs_of_panels_have_what_they_name():
    points, counts = cloud(), np.arange(1, 61)
    both = plots.several_against_frequency({"norm": points[:, 0], "cosine": points[:, 1]}, counts)
    assert [ax.get_ylabel() for ax in both.axes] == ["norm", "cosine"]
    share = counts / counts.sum()
    both = plots.cloud_and_cosines(points, share, {3: "the"}, {"rare": points[:, 0]})
    assert [text.get_text() for text in both.axes[0].texts] == ["origin", "the"]
    bars = plots.soft_targets(np.eye(3, 2), ["a", "b", "c"], {"one-hot": [1, 0, 0]}).axes[1]
    assert [bar.get_height() for bar in bars.patches] == [1, 0, 0]


def test_a_push_leads_away_from_the_mean_direction_along_the_circle():
    dots = np.array([[1.0, 0], [0, 1]])
    opposite = np.array([[1.0, 0], [-1, 0]])
    axes = plots.pushes_on_a_circle({"a cone": dots, "no mean": opposite}).axes
    pushes, mean = axes[0].collections
    steps = np.stack([pushes.U, pushes.V], 1)
    assert np.allclose((steps * dots).sum(1), 0) and (steps @ dots.mean(0) < 0).all()
    assert (mean.U, mean.V) == (0.5, 0.5)
    assert not axes[1].collections and axes[1].texts[0].get_text() == "m = 0"


def test_cosines_over_training_are_those_of_each_group():
    models = {"plain": {0: cloud(), 5: cloud(seed=1)}, "penalty": {0: cloud(), 5: cloud(seed=2)}}
    groups = {"rare": np.arange(30), "frequent": np.arange(30, 60)}
    axes = plots.cosines_over_training(models, groups).axes
    assert [ax.get_title() for ax in axes] == ["rare words", "frequent words"]
    drawn = axes[1].lines[1].get_ydata()
    assert drawn.tolist() == [mean_cosine(W[30:]) for W in models["penalty"].values()]


def test_stacked_clouds_have_one_scale_and_one_legend():
    figure = plots.stacked_clouds(
        {"plain": cloud(), "penalty": 3 * cloud(seed=1)},
        {"rare": np.arange(20), "500 most frequent": np.arange(40, 60)},
    )
    upper, lower = figure.axes
    assert upper.get_xlim() == lower.get_xlim() and upper.get_ylim() == lower.get_ylim()
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["rare", "between", "500 most frequent"]
    assert [len(c.get_offsets()) for c in upper.collections] == [20, 20, 20]


def test_spectra_are_drawn_divided_and_undivided():
    spectra = {"plain": np.array([4.0, 2, 1, 1]), "penalty": np.array([2.0, 2, 2, 2])}
    left, right = plots.spectra_twice(spectra).axes
    assert left.lines[0].get_ydata().tolist() == [1, 0.5, 0.25, 0.25]
    assert right.lines[0].get_ydata().tolist() == [4, 2, 1, 1]


def test_a_sweep_has_a_line_for_each_seed_and_their_mean():
    changes = pd.DataFrame([[0.0, -2.0], [0.0, -4.0]], columns=[0.0, 1.0])
    left, right = plots.swept({"rare": [0.8, 0.1]}, changes, "weight γ").axes
    assert left.lines[0].get_ydata().tolist() == [0.8, 0.1]
    drawn = [list(line.get_ydata()) for line in right.lines if len(line.get_xdata())]
    assert drawn[:3] == [[0, -2], [0, -4], [0, -3]]
    assert [text.get_text() for text in right.get_xticklabels()] == ["0", "1"]


def test_parts_of_a_difference_have_their_numbers():
    parts = {"by word": {"never": -0.04, "often": 0.01}, "before": {"never": 0.0, "often": 1.0}}
    axes = plots.shares_of_a_difference(parts, "nats").axes
    assert [text.get_text() for text in axes[0].texts] == ["-0.040", "+0.010"]


def test_ranks_of_several_vocabularies_share_a_picture():
    axes = plots.frequency_ranks({"words": [6, 3, 0, 1], "pieces": [5, 5]}).axes[0]
    assert axes.lines[0].get_ydata().tolist() == [0.6, 0.3, 0.1]
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["4 words", "2 pieces", "rare below 0.0001"]


def test_a_ratio_is_drawn_beside_one():
    axes = plots.ratio_against_frequency(np.full(50, 0.1), np.arange(1, 51), "a / b").axes[0]
    assert axes.get_yscale() == "log" and axes.texts[0].get_text() == "equally long"


def test_a_layer_has_one_colour_in_every_figure_of_a_lesson():
    names = ("softmax", "GSS", "kinked")
    curves = {name: (np.arange(1, 5), np.array([8.0, 4, 2, 1]) + i) for i, name in enumerate(names)}
    spectra = {name: y for name, (_, y) in curves.items()}
    bent = plots.bent_line(curves, curves, spectra).axes
    for ax in bent[:3]:
        assert len({line.get_color() for line in ax.lines}) == 3
        assert [line.get_color() for line in ax.lines] == [h.get_color() for h in bent[0].lines]
    assert [text.get_text() for text in bent[3].get_legend().get_texts()] == list(names)
    cut = plots.directions_taken_away(spectra, curves, 3, 1e-6).axes
    for ax in cut:
        assert [line.get_color() for line in ax.lines[:3] if line.get_label() in names][0] == (
            bent[0].lines[0].get_color()
        )


def test_a_bound_stands_in_the_panel_of_the_ranks():
    sizes = np.array([1e-2, 1e-1, 1.0])
    ranks = {"a": (sizes, [33, 50, 90]), "b": (sizes, [33, 80, 90])}
    moved = {"a": (sizes, sizes), "b": (sizes, [0.0, 1e-6, 1.0])}
    top, bottom = plots.slight_changes(ranks, moved, 33).axes
    assert top.lines[2].get_ydata()[0] == 33 and top.texts[0].get_text() == "d + 1 = 33"
    assert bottom.get_yscale() == "log"
    assert bottom.lines[1].get_ydata().tolist() == [1e-5, 1e-5, 1.0]  # on the line that says so
    assert bottom.lines[2].get_ydata()[0] == 1e-5 and bottom.texts[0].get_text() == "1e-05 or less"


def test_learned_bends_are_drawn_as_given():
    x = np.array([-1.0, 0, 1])
    functions, slopes = {"f": (x, x), "g": (x, -x)}, {"f": (x, x**0), "g": (x, -(x**0))}
    drawn = plots.learned_bend(functions, slopes, (-0.5, 0.5))
    for ax, y in zip(drawn.axes, (x, x**0), strict=True):
        assert ax.lines[0].get_ydata().tolist() == y.tolist() and ax.patches


def test_the_explorer_of_bends_compares_each_with_no_bend():
    def described(c, k):
        return np.array([0.5, 0.25]) / k, f"c {c:g}, k {k:g}"

    sliders = {"c": np.array([-1.0, 1]), "k": [1.0, 2]}
    moving = plots.bends_explorer(sliders, lambda x, c, k: k * x + c, described, np.array([1, 10]))
    functions, probabilities = moving.last.axes
    x, y = functions.lines[1].get_data()
    np.testing.assert_allclose(y, 2 * x + 1)
    assert probabilities.lines[0].get_ydata().tolist() == [0.5, 0.25]
    assert probabilities.lines[1].get_ydata().tolist() == [0.25, 0.125]
    assert "c 1, k 2" in moving.page


def test_optimisers_keep_their_colours_and_losses_are_means_of_ten_steps():
    paths = {name: (np.arange(20.0), np.full(20, 0.5)) for name in ("SGD", "Adam", "coupled Adam")}
    figure = plots.means_and_losses(paths)
    means, losses = figure.axes
    assert losses.lines[1].get_xdata().tolist() == [5, 15]
    assert losses.lines[1].get_ydata().tolist() == [4.5, 14.5]
    inks = [line.get_color() for line in means.lines]
    assert inks[1:] == plots.colours(["plain", "remedy"]) and len(set(inks)) == 3
    assert [text.get_text() for text in figure.legends[0].texts] == list(paths)
    spectra = {name: [4.0, 2.0] for name in ("Adam", "Muon")}
    left = plots.spectra_and_ways(spectra, dict.fromkeys(spectra, ([1, 9], [0.1, 0.2]))).axes[0]
    assert left.lines[0].get_ydata().tolist() == [1, 0.5]
    assert left.lines[0].get_color() == inks[1]


def test_rare_words_lie_to_the_right_of_frequent_ones_in_one_view():
    points = np.random.default_rng(0).normal(size=(40, 5))
    points[:20, 2] += 3
    rare, frequent = np.arange(20), np.arange(20, 40)
    clouds = {"narrow": points + 4, "round": points}
    axes = plots.from_frequent_to_rare(clouds, rare, frequent).axes
    assert axes[0].get_xlim() == axes[1].get_xlim() == axes[1].get_ylim()
    for ax in axes:
        common, seldom = (c.get_offsets().mean(0) for c in ax.collections)
        assert seldom[0] > common[0] + 2 and abs(seldom[1] - common[1]) < 1e-9
        assert [c.get_label() for c in ax.collections] == ["frequent words", "rare words"]


def test_a_loss_swept_has_a_level_without_it():
    table = pd.DataFrame({"drift": [0.6, 0.1], "cosine of rare words": [0.9, 0.2]}, index=[1, 10])
    axes = plots.swept_losses({"one": table, "two": table}, table.iloc[0]).axes
    assert [ax.get_title() for ax in axes] == ["one", "two"]
    levels = [line for line in axes[1].lines if line.get_linestyle() == ":"]
    assert [line.get_ydata()[0] for line in levels] == table.iloc[0].tolist()
    assert levels[1].get_color() == plots.colours(table)[1]


METHODS = pd.DataFrame(
    {
        "difference": [np.nan, 1.0, 1.1, 8.0],
        "difference low": [np.nan, 0.5, 0.6, 7.0],
        "difference high": [np.nan, 2.0, 1.9, 9.5],
        "cosine of rare words": [0.4, 0.1, 0.1, 0.0],
        "σ₂/σ₁": [0.3, 0.6, 0.6, 0.9],
    },
    index=["tied", "a", "b", "c"],
)


def test_methods_stand_by_their_loss_with_the_baseline_in_the_colour_of_the_plain():
    left, right = plots.loss_and_cosine(METHODS).axes
    assert [label.get_text() for label in left.get_yticklabels()] == list(METHODS.index)
    reach = [c for c in left.collections if len(c.get_segments()) == 3][0].get_segments()
    assert [segment[:, 0].tolist() for segment in reach] == [[0.5, 2], [0.6, 1.9], [7, 9.5]]
    plain, remedy = plots.colours(["plain", "remedy"])
    assert [line.get_color() for line in right.lines[:2]] == [plain, remedy]
    assert right.lines[1].get_xdata().tolist() == [0.1, 0.1, 0.0]


def test_every_method_has_its_name_and_no_two_names_lie_on_each_other():
    figure = plots.loss_against_cloud(METHODS, ["σ₂/σ₁", "cosine of rare words"])
    figure.draw_without_rendering()
    for ax in figure.axes:
        assert {text.get_text() for text in ax.texts} == set(METHODS.index)
        boxes = [text.get_window_extent() for text in ax.texts]
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_gates_caps_and_repairs_draw_what_they_are_given():
    grid = np.linspace(-40, 40, 9)
    ax = plots.caps({"cap 5": (grid, 1 - np.tanh(grid / 5) ** 2)}, np.zeros(50)).axes[0]
    assert ax.lines[0].get_ydata().max() == 1 and ax.patches[0].get_data().values.max() == 1
    gone = {"plain Adam": ([1, 9], [0.5, 0.6]), "remedy: gating": ([1, 9], [0.1, 0.7])}
    gates = {"rare": np.array([0.1, 1]), "common": np.array([0.01, 1])}
    left, right = plots.gates_and_ways(np.array([0.01, 1]), gates, gone).axes
    assert [line.get_ydata().tolist() for line in left.lines] == [[0.1, 1], [0.01, 1]]
    assert [line.get_color() for line in right.lines] == plots.colours(["plain", "remedy"])
    table = METHODS.assign(loss=[4.0, 5, 6, 7]).reset_index(drop=True)
    left, right = plots.repairs(table, 4.0).axes
    assert left.lines[0].get_ydata()[0] == 4 and left.lines[1].get_ydata().tolist() == [4, 5, 6, 7]
    assert left.get_xlabel() == right.get_xlabel() == "components removed"


def test_three_matrices_are_three_clouds_and_all_spectra():
    clouds = {"model": cloud(), "Word2Vec": cloud(seed=1)}
    classifier = cloud(20), np.arange(20) % 2, np.array([[1.0, 0], [0, 1]])
    values = {name: np.array([3.0, 2, 1]) for name in ("model", "Word2Vec", "classifier")}
    axes = plots.three_matrices(clouds, classifier, values).axes
    assert [ax.get_title() for ax in axes] == [*clouds, "classifier", "singular values"]
    assert len(axes[3].lines) == 3
    assert not [label.get_text() for label in axes[2].get_xticklabels() if label.get_text()]


def test_a_cloud_is_stretched_and_then_turned():
    quarter = np.array([[0.0, -1], [1, 0]])
    stages = {"round": (np.eye(2), np.eye(2)), "turned": (np.diag([2.0, 1]), quarter)}
    figure = plots.stretched_and_turned(np.array([[1.0, 0], [0, 1]]), stages)
    first, second = (np.array(ax.lines[0].get_xydata()) for ax in figure.axes)
    assert np.allclose(first, [[1, 0], [0, 1]]) and np.allclose(second, [[0, 2], [-1, 0]])
    labels = [[t.get_text() for t in ax.texts if t.get_text()] for ax in figure.axes]
    assert labels == [["1", "1"], ["σ₁", "1"]]


def test_shares_and_ceilings_have_their_names_at_their_ends():
    curves = {
        "plain": ([1, 9], [0.1, 0.5], [0.2, 0.8]),
        "control": ([1, 9], [0.1, 0.1], [0.2, 0.3]),
    }
    (ax,) = plots.share_under_ceiling(curves).axes
    named = {text.get_text(): text.xy for text in ax.texts}
    assert named["share s, plain"] == (9, 0.5) and named["ceiling 1/r, control"] == (9, 0.3)
    plain, remedy = (style.COLOURS[style.MEANING[name]] for name in ("plain", "remedy"))
    assert [line.get_color() for line in ax.lines] == [plain, plain, remedy, remedy]


def test_two_clouds_have_the_groups_the_spectra_and_the_cosines():
    clouds = {"plain": cloud(), "control": cloud(seed=1)}
    values = {name: np.array([3.0, 2, 1]) for name in ("plain", "control", "prior")}
    group = np.arange(60) % 3
    names = ["rare", "between", "frequent"]
    axes = plots.two_clouds(clouds, group, names, values, {"plain": [0.1, 0.2]}).axes
    assert [ax.get_title() for ax in axes[:2]] == list(clouds)
    assert [len(c.get_offsets()) for c in axes[1].collections] == [20, 20, 20]
    assert not axes[0].legend_ and not axes[1].legend_ and len(axes[2].lines) == 3
    assert [text.get_text() for text in axes[0].figure.legends[0].get_texts()] == names


def test_settings_stand_in_rows_with_every_seed_and_the_mean():
    groups = {"plain": [1.0, 2, 3], "remedy": [2.0, 2.5, 3]}
    share, perplexity = plots.seeds_by_row({"share": groups, "perplexity": groups}).axes
    assert [label.get_text() for label in share.get_yticklabels()] == list(groups)
    assert share.get_ylim()[0] > share.get_ylim()[1]  # the first setting is at the top
    drawn = [line.get_xdata().tolist() for line in perplexity.lines]
    assert [2.0] in drawn and groups["remedy"] in drawn
    named = [text.get_text() for text in share.figure.legends[0].get_texts()]
    assert sorted(named) == ["a seed", "mean and interval"]


def test_a_spectrum_ends_where_it_leaves_the_picture():
    spectra = {"gone": np.array([2.0, 1, 1e-9]), "stays": np.array([2.0, 1, 1])}
    (ax,) = plots.where_penalties_lead(spectra).axes
    assert [line.get_ydata().tolist() for line in ax.lines] == [[1, 0.5], [1, 0.5, 0.5]]
    assert [text.xy for text in ax.texts] == [(2, 0.5), (3, 0.5)]


def test_a_mixture_lies_on_the_chord_and_leaves_the_line_of_the_log_ratios():
    ends = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    chord = np.stack([ends[0], ends.mean(0), ends[1]])
    line = np.exp([[1.0, 0, -1], [0, 0, 0], [-1, 0, 1]])
    curve = line / line.sum(1, keepdims=True)
    drawn = plots.softmax_and_mixture(["a", "b", "c"], curve, chord, ends, [chord[1], curve[1]])
    left, right = drawn.axes
    assert [text.get_text() for text in left.texts] == ["a", "b", "c"]
    straight, bent = (np.diff(ax.get_xydata(), axis=0) for ax in right.lines[:2])
    assert np.allclose(straight[0], straight[1]) and not np.allclose(bent[0], bent[1])
    assert np.allclose(left.lines[2].get_ydata(), 0.1 * 0.75**0.5)  # b has 0.1 on the whole chord


def test_layers_keep_their_colours_and_the_bound_is_named():
    ax = plots.layer_spectra({"softmax": [2.0, 1.0, 1e-9], "MoS": [3.0, 2.0, 1.0]}, 2).axes[0]
    grey, green = (line.get_color() for line in ax.lines[:2])
    assert [grey, green] == [plots.COLOURS[5], plots.COLOURS[2]]
    assert ax.lines[1].get_ydata()[0] == 1 and ax.texts[0].get_text() == "d + 1 = 2"


def test_a_line_joins_the_runs_of_one_seed():
    groups = {"d = 1": {"MoC": {1: 5.0, 2: 6.0}, "MoS": {2: 3.0, 1: 4.0}}}
    drawn = plots.joined_by_seed(groups, "test perplexity").axes[0]
    assert [line.get_ydata().tolist() for line in drawn.lines] == [[5.0, 4.0], [6.0, 3.0]]
    assert [line.get_label() for line in drawn.lines] == ["seed 1", "seed 2"]


def test_excess_is_drawn_against_d_and_against_thousands_of_numbers():
    fits = {"one": ([4, 8], [1000, 2000], [0.2, 0.1]), "two": ([4], [1500], [0.1])}
    axes = plots.excess_and_size(fits).axes
    places = [ax.lines[0].get_xdata().tolist() for ax in axes]
    assert places == [[4, 8], [1, 2]]


def test_every_word_and_every_component_has_its_cell():
    ax = plots.responsibilities([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]], ["a", "b", "c"]).axes[0]
    assert ax.images[0].get_array().shape == (2, 3)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "2"]


def test_ranks_stand_beside_the_perplexity_of_every_seed():
    drawn = plots.rank_and_perplexity(
        {1: {1: 50.0, 2: 49.0}, 2: {1: 51.0, 2: 52.0}}, {"Press' rank": {1: 65, 2: 990}}, "K"
    )
    left, right = drawn.axes
    assert [list(line.get_ydata()) for line in left.lines] == [[50, 49], [51, 52], [50.5, 50.5]]
    assert right.lines[0].get_ydata().tolist() == [65, 990]


def test_a_learning_curve_begins_where_its_epochs_do():
    epochs = [
        {"epoch": e, "train_perplexity": 90.0 / e, "valid_perplexity": 100.0 / e} for e in (3, 4, 5)
    ]
    drawn = plots.learning_curve(epochs).axes[0]
    assert [line.get_label() for line in drawn.lines] == ["training", "validation"]
    for line, start in zip(drawn.lines, (90, 100), strict=True):
        assert line.get_xdata().tolist() == [3, 4, 5]
        assert line.get_ydata().tolist() == [start / e for e in (3, 4, 5)]


def test_seeds_stand_at_their_number_and_means_carry_their_interval():
    groups = {0.0: [5.0, 7.0], 0.4: [3.0, 4.0, 5.0]}
    intervals = {0.0: (6.0, 5.5, 6.5), 0.4: (4.0, 3.0, 5.5, 1.0, 3)}
    ax = plots.seeds(groups, intervals, "dropout", "perplexity").axes[0]
    (dots,) = [dots for dots in ax.collections if dots.get_label() == "a seed"]
    assert dots.get_offsets().tolist() == [[0, 5], [0, 7], [0.4, 3], [0.4, 4], [0.4, 5]]
    (bars,) = ax.containers
    assert bars.lines[0].get_xydata().tolist() == [[0.0, 6.0], [0.4, 4.0]]
    spans = [segment[:, 1].tolist() for segment in bars.lines[2][0].get_segments()]
    assert spans == [[5.5, 6.5], [3.0, 5.5]]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["a seed", "mean and interval"]
    named = {"a": [1.0, 2.0], "b": [2.0, 2.0]}
    ax = plots.seeds(named, {"a": (1.5, 1, 2), "b": (2, 1, 3)}, "model", "y").axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b"]
    assert ax.containers[0].lines[0].get_linestyle() == "None"


def explorer(**changes):
    x, c, k = np.linspace(-4, 4, 9), np.array([-1.0, 0.0, 1.0]), np.array([1.0, 2.0])
    bent = x * np.where(x < c[:, None, None], k[:, None], 1)
    curves = {"bent & moved": (x, bent), "straight": (x, x)}
    falling = {"straight": (x + 5, np.exp(-x)), "third": (x + 5, np.exp(bent))}
    arguments = {
        "sliders": {"c": c, "k": k},
        "axes": [
            plots.Panel(curves, "x", "f(x)", (-4, 4), (-8, 4)),
            plots.Panel(falling, "x", "p", (1, 9), (1e-4, 1e2), log=True),
        ],
        "captions": [[f"c {i}, k {j}" for j in k] for i in c],
        "start": (2, 1),
    }
    return plots.explorer(**arguments | changes), bent


def test_wins_names_rows_and_columns_and_counts_every_pair_but_oneself():
    table = wins({"one": [1, 2, 3, 0], "two": [0, 3, 1, 2], "three": [2, 1, 2, 1]})
    before = table.copy()
    ax = plots.wins(table, benchmarks=4).axes[0]
    pd.testing.assert_frame_equal(table, before)
    cells = {(int(t.get_position()[1]), int(t.get_position()[0])): t.get_text() for t in ax.texts}
    assert ax.yaxis_inverted()  # the first row is on top
    assert cells == {(i, j): str(table.iloc[i, j]) for i in range(3) for j in range(3) if i != j}
    assert [t.get_text() for t in ax.get_yticklabels()] == ["one", "two", "three"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["one", "two", "three"]
    assert ax.collections[0].get_clim() == (0, 4)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([100, 101, 102, 300, 20], [0.1, 0.1, 0.105, 0.5, 0.3]),
        # Laid out before the axes have their limits, two of these would meet.
        ([130, 220, 129, 188, 201], [0.139, 0.144, 0.137, 0.111, 0.148]),
        ([189, 193, 107, 158, 187], [0.19, 0.146, 0.118, 0.126, 0.194]),
    ],
)
def test_no_number_lies_on_another_number_or_point(x, y):
    names = ["first", "second", "third", "fourth", "fifth"]
    figure = plots.numbered_points(x, y, names, "x", "y", "A title")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2", "3", "4", "5"]
    (legend,) = figure.legends
    assert [text.get_text().split("  ")[1] for text in legend.get_texts()] == names
    ax = figure.axes[0]
    points = ax.transData.transform(np.column_stack([x, y]))
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
        assert not any(box.contains(*point) for point in points)


def test_win_matrices_stand_under_their_names():
    table = wins({"one": [1, 2, 3, 0], "two": [0, 3, 1, 2]})
    figure = plots.win_matrices({"seed 1": table, "seed 2": table.T}, 4, "A title")
    assert [ax.get_title() for ax in figure.axes] == ["seed 1", "seed 2"]
    assert figure.get_suptitle() == "A title"
    told = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert told[0] == told[1][::-1]


def test_two_win_matrices_stand_side_by_side_with_the_names_once():
    table = pd.DataFrame([[0, 3], [1, 0]], index=["gss", "mos"], columns=["gss", "mos"])
    figure = plots.wins_beside({"seed 1": table, "seed 2": table.T}, 4, "A title")
    left, right = figure.axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["gss  1", "mos  2"]
    for labels in (right.get_yticklabels(), left.get_xticklabels(), right.get_xticklabels()):
        assert [tick.get_text() for tick in labels] == ["1", "2"]
    assert [text.get_text() for text in left.texts] == ["3", "1"]
    assert [text.get_text() for text in right.texts] == ["1", "3"]


def test_the_explorer_holds_every_curve_of_every_combination():
    drawn, bent = explorer()
    data = data_in(drawn.page)
    left, right = data["panels"]
    y = np.frombuffer(base64.b64decode(left["curves"][0]["y"]), "<i2").reshape(3, 2, 9)
    np.testing.assert_allclose(y / 1e4 * 12 - 8, bent, atol=1e-3)
    y = np.frombuffer(base64.b64decode(right["curves"][1]["y"]), "<i2").reshape(3, 2, 9)
    np.testing.assert_allclose(y / 1e4 * 6 - 4, bent / np.log(10), atol=1e-3)
    assert [curve["moves"] for curve in left["curves"]] == [True, False]
    assert left["curves"][1]["style"] == right["curves"][0]["style"]
    assert [label for _, label in right["yticks"]] == [
        "10⁻⁴",
        "10⁻³",
        "10⁻²",
        "10⁻¹",
        "10⁰",
        "10¹",
        "10²",
    ]
    assert data["captions"][5] == "c 1.0, k 2.0" and data["values"] == [
        ["−1", "0", "1"],
        ["1", "2"],
    ]
    on_paper = drawn.last.axes[0].lines[0]
    np.testing.assert_allclose(on_paper.get_ydata(), bent[2, 1])


def test_a_moving_curve_may_be_a_list_of_rows():
    x, rows = np.linspace(0, 1, 5), [np.linspace(0, k, 5) for k in (1, 2, 3)]

    def moving(y):
        panel = plots.Panel({"y": (x, y)}, "x", "y", (0, 1), (0, 3))
        return plots.explorer({"k": [1, 2, 3]}, [panel], ["one", "two", "three"], (1,))

    drawn, same = moving(rows), moving(np.array(rows))
    assert drawn.page == same.page
    np.testing.assert_array_equal(drawn.last.axes[0].lines[0].get_ydata(), rows[1])


def test_the_explorer_is_self_contained_and_accessible():
    page = shown(explorer()[0])[0]["text/html"]
    assert not re.search(r"(src|href)=|https?:|import\(|fetch\(", page)
    assert not re.search(r"@[A-Z]+@", page) and len(page) < interactive.ANIMATION_BYTES
    assert page.count('type="range"') == 2 and 'aria-label="k"' in page and ALT in page
    assert "bent &amp; moved" in page


def test_an_explorer_whose_shapes_disagree_says_so():
    curve = ([0, 1], [0, 1])
    six = plots.Panel(dict.fromkeys("abcdef", curve), "x", "y", (0, 1), (0, 1))
    with pytest.raises(CourseError, match="5 names of curves at most, not a, b, c, d, e, f"):
        plots.explorer({"s": [1]}, [six], ["told"], (0,))
    with pytest.raises(CourseError, match=r"captions: \(3,\) values for sliders of \(3, 2\)"):
        explorer(captions=["a"] * 3)
    with pytest.raises(CourseError, match=r"curve bent & moved: \(3, 2\) .* of \(2, 2\)"):
        explorer(sliders={"c": [0, 1], "k": [1, 2]}, captions=[["a"] * 2] * 2)


def drawing(seen):
    def bend(c, kind="straight"):
        seen.append((c, kind))
        sentence = f"A line of the {kind} kind that rises to {c}."
        return plots.lines({kind: [0, c]}, "x", "y"), sentence

    return bend


CONTROLS = {
    "c": ("place of the bend c", np.array([-1.0, 0.5, 2.0]), 0.5),
    "kind": ("kind of line", ["straight", "bent"], "straight"),
}


def test_nobody_is_there_when_tests_run():
    assert not plots.attended()


def test_where_nobody_is_there_one_line_stands_and_the_drawing_is_tried(capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(interactive, "display", lambda *given, **options: seen.append("shown"))
    plots.live(drawing(seen), **CONTROLS)
    assert capsys.readouterr().out == interactive.AWAY + "\n"
    assert seen == [(0.5, "straight")]


def test_where_somebody_is_there_controls_redraw(capsys, monkeypatch):
    seen, displayed = [], []
    monkeypatch.setattr(interactive, "attended", lambda: True)
    for module in (interactive, style):
        monkeypatch.setattr(module, "display", lambda data, **options: displayed.append(data))
    plots.live(drawing(seen), **CONTROLS)
    first, panel = displayed  # the figure, drawn once before the panel with its controls
    assert first["text/plain"] == "A line of the straight kind that rises to 0.5."
    slider, menu, _ = panel.children
    assert (slider.description, menu.description) == ("place of the bend c", "kind of line")
    assert not slider.continuous_update and slider.options[0] == ("−1", -1.0)
    slider.value = 2.0
    menu.value = "bent"
    assert seen == [(0.5, "straight"), (2.0, "straight"), (2.0, "bent")]
    assert displayed[-1]["text/plain"] == "A line of the bent kind that rises to 2.0."
    assert "rises to 2.0.\n" in capsys.readouterr().out


@pytest.mark.parametrize("somebody", [True, False])
def test_a_control_that_draw_does_not_know_says_so(monkeypatch, somebody):
    monkeypatch.setattr(interactive, "attended", lambda: somebody)
    with pytest.raises(CourseError, match="argument of bend 'knd'; did you mean kind"):
        plots.live(drawing([]), c=CONTROLS["c"], knd=CONTROLS["kind"])
    with pytest.raises(CourseError, match="control c starts at 7, which is none of its values"):
        plots.live(drawing([]), c=("c", [1, 2], 7))


def test_a_kernel_knows_whether_somebody_sits_at_it():
    """JupyterLab asks a kernel with allow_stdin, everything that executes alone without."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    code, told = "from course_lab import plots; print(plots.attended())", []
    hear = {"output_hook": lambda message: told.append(message["content"].get("text"))}
    try:
        for asked in (True, False):
            client.execute_interactive(code, allow_stdin=asked, timeout=60, **hear)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert [line for line in told if line] == ["True\n", "False\n"]


def test_numbers_of_marks_that_stand_together_lie_below_and_above():
    table = pd.DataFrame({"cost": [10.0, 30.0, 31.0], "perplexity": [90.0, 80.0, 79.0]})
    figure = plots.priced(table.assign(family="f"), [True] * 3, "minutes", "a front")
    places = {text.get_text(): text.xyann[1] for text in figure.axes[0].texts}
    assert places["1"] < 0 and places["2"] < 0 < places["3"]


def test_marks_far_above_the_others_are_told_and_do_not_stretch_the_axis():
    perplexity = [90.0, 80.0, 1_298.0, 500.0]
    table = pd.DataFrame(
        {"cost": [0.01, 30.0, 31.0, 40.0], "perplexity": perplexity, "family": "f"}
    )
    (ax,) = plots.priced(table, [True, True, False, False], "minutes", "a front").axes
    assert "2 settings above, up to 1,298" in {text.get_text() for text in ax.texts}
    assert ax.get_ylim()[1] == pytest.approx(3 * 80)
    (ax,) = plots.priced(table[:2], [True, True], "minutes", "a front").axes
    assert not any("above" in text.get_text() for text in ax.texts)


def test_bars_tell_how_far_wins_are_off_half_whichever_run_is_the_first():
    wins = pd.DataFrame({"wins": [2, 8, 5, 6], "lists": 10, "kind": ["a", "a", "a", "b"]})
    ax = plots.evidence.off_half(wins, "wins").axes[0]
    a, b = ([bar.get_height() for bar in bars] for bars in ax.containers)
    assert a == pytest.approx([1 / 3, 0, 0, 2 / 3, 0, 0]) and b == [0, 1, 0, 0, 0, 0]
    odd = pd.DataFrame({"wins": [3, 2], "lists": 5, "kind": "a"})
    ax = plots.evidence.off_half(odd, "wins").axes[0]
    assert ax.get_xticks().tolist() == [0.5, 1.5, 2.5]
    assert ax.containers[0][0].get_height() == 1


def test_a_grid_leaves_white_what_has_not_been_run():
    cells = pd.DataFrame(
        {"c": [0.0, 1.0, 0.0, 1.0], "k": [2.0, 2.0, 3.0, 3.0]}
        | {"rank": [10.0, 20.0, 30.0, np.nan], "perplexity": [90.5, 91.5, 92.5, np.nan]}
    )
    left, right = plots.grids(cells, "a grid").axes
    assert {text.get_text() for text in left.texts} == {"10", "20", "30"}
    assert {text.get_text() for text in right.texts} == {"90.5", "91.5", "92.5"}
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["3.0", "2.0"]


def test_kinds_stand_beside_each_other_on_the_row_of_their_list():
    index = pd.MultiIndex.from_product([["A", "B"], ["raw", "centred"]], names=["list", "kind"])
    columns = {"rho": [0.2, 0.3, 0.4, 0.5], "low": 0.1, "high": 0.6, "frequency": [-0.7, 0.1, 0, 1]}
    figure = plots.kinds(pd.DataFrame(columns, index=index), "kinds")
    left, right = figure.axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["A", "B"]
    marks = [line for line in right.lines if line.get_marker() != "None"]
    assert [list(line.get_xdata()) for line in marks] == [[-0.7, 0], [0.1, 1]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["raw", "centred"]


def bars_of(ax) -> list:
    """Return the ends of every error bar that is drawn."""
    segments = [s for c in ax.collections if hasattr(c, "get_segments") for s in c.get_segments()]
    return [s for s in segments if len(s) and np.isfinite(s).all()]


def test_one_seed_has_no_bar():
    groups = {"a": [1.0, 2.0], "b": [3.0]}
    ax = plots.seeds(groups, {"a": (1.5, 1.0, 2.0), "b": (3.0, 3.0, 3.0)}, "x", "y").axes[0]
    assert len(bars_of(ax)) == 1
    rows = pd.DataFrame(
        {"published": [50.0, 60], "ours": [55.0, 66], "low": [54.0, np.nan], "high": [56, np.nan]},
        index=["a", "b"],
    ).assign(tier="desk")
    figure = plots.beside(rows, {}, "perplexity", "title")
    assert len(bars_of(figure.axes[0])) == 1
    assert figure.legends[0].get_title().get_text() == "without a bar: one seed"
    alone = plots.beside(rows.assign(published=np.nan), {}, "perplexity", "title")
    assert [text.get_text() for text in alone.legends[0].get_texts()] == ["ours, desk"]
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ["published", "ours, desk"]


def test_few_points_of_a_curve_all_have_their_marks():
    few, many = plots.lines({"few": range(16), "many": range(17)}, "x", "y").axes[0].lines
    assert few.get_markevery() == 1 and many.get_markevery() == 0.12


def turned_by(rank, evidence):
    """Return interventions by the ratio of Press' ranks."""
    ours = pd.DataFrame({"knob": "components", "rank": rank, "difference": 1.0})
    ours = ours.assign(low=0.5, high=1.5, evidence=evidence)
    return ours.assign(**{"effective rank": ours["rank"] / 10, "at least": False})


def test_marks_of_nearly_one_rank_stand_beside_each_other():
    ours = turned_by([15.0, 15.1, 20.0], evidence=True)
    ax = plots.turned(ours, ours[:0], "title").axes[1]
    marks = ax.containers[0].lines[0].get_xdata()
    np.testing.assert_allclose(marks, [15.0, 15.6, 20.0])


def test_the_effective_rank_leads_and_an_arrow_leads_on_from_a_rank_that_is_at_least_so_much():
    ours = turned_by([12.0, 15.0], evidence=True)
    ours["effective rank"], ours["at least"] = [1.8, 1.1], [False, True]
    first, second = plots.turned(ours, ours[:0], "title").axes
    np.testing.assert_allclose(first.containers[0].lines[0].get_xdata(), [1.1, 1.8])
    assert first.get_xlabel().startswith("effective rank") and not first.texts
    (arrow,) = second.texts
    assert arrow.xy == (15, 1) and arrow.xyann[0] > 0 and arrow.arrow_patch is not None


def test_what_is_no_evidence_is_pale():
    ours = turned_by([15.0, 20.0], evidence=[False, True])
    ax = plots.turned(ours, ours[:0], "title").axes[1]
    clear, pale = ax.containers
    assert clear.lines[0].get_xdata() == [20] and clear.lines[0].get_alpha() == 1
    assert pale.lines[0].get_xdata() == [15] and pale.lines[0].get_alpha() < 0.5
    legend = ax.figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["components (MoS), ours"]
    assert legend.get_title().get_text() == "pale: no evidence"


def test_pairs_are_told_once_where_all_have_as_many():
    table = pd.DataFrame(
        {"difference": [np.nan, 1.0, 2.0], "pairs": [np.nan, 3, 3], "verdict": "baseline"},
        index=["plain", "one", "other"],
    )
    table["difference low"], table["difference high"] = 0.5, 2.5
    table.loc["one":, "verdict"] = "worse"
    ax = plots.differences(table, 1.0).axes[0]
    assert ax.get_xlabel() == "perplexity against plain, %\n(3 pairs each)"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "other"]
    table.loc["other", "pairs"] = 4
    ax = plots.differences(table, 1.0).axes[0]
    assert ax.get_xlabel() == "perplexity against plain, %"
    assert ax.get_yticklabels()[1].get_text() == "other (4\u00a0pairs)"


def test_each_output_layer_is_named_once_beside_its_runs():
    x, y = [10.0, 11, 100, 110], [60.0, 61, 50, 51]
    ax = plots.correlated(x, y, [0, 0, 1, 1], ["tied", "tied", "mos", "mos"], "x", "y", "t").axes[0]
    assert [text.get_text() for text in ax.texts] == ["tied", "mos"]
    assert [text.xy[0] for text in ax.texts] == [11, 110]
    joins = [line for line in ax.lines if line.get_alpha() == 0.6 and len(line.get_xdata()) == 2]
    assert len(joins) == 4 and {line.get_linestyle() for line in joins} == {"-"}


def test_names_of_layers_at_one_place_stand_below_each_other_within_the_axes():
    x, y = [200.0, 2500, 2480], [90.0, 93.0, 92.99]
    ax = plots.correlated(x, y, [0, 1, 2], ["tied", "plif", "gss"], "x", "y", "t").axes[0]
    ax.figure.draw_without_rendering()
    boxes = {text.get_text(): text.get_window_extent() for text in ax.texts}
    assert not boxes["plif"].overlaps(boxes["gss"])
    assert all(box.x1 < ax.get_window_extent().x1 for box in boxes.values())
    shown = [tick for tick in ax.get_xticks() if ax.get_xlim()[0] < tick < ax.get_xlim()[1]]
    assert shown == [200, 500, 1000, 2500]


def test_tested_claims_name_what_is_beyond_ten_per_cent_as_factors():
    row = {"published": -5.0, "ours": 500.0, "low": 490.0, "high": 510.0, "verdict": "agrees"}
    row |= {"says": "It rises.", "paper": "a2020", "interim": "", "unit": "%"}
    table = pd.DataFrame([row, row | {"interim": "2 of 5 pairs", "unit": "hundredths"}])
    figure = plots.tested_claims(table, "title")
    ax = figure.axes[0]
    faces = [
        line.get_markerfacecolor() for line in ax.lines if line.get_marker() == style.MARKERS[2]
    ]
    assert (
        len(faces) == 2 and faces[0] != style.PAPER and faces[1] == style.PAPER
    )  # the interim one is hollow
    assert "interim" in figure.legends[0].get_title().get_text()
    ticks = dict(zip(ax.get_xticks(), [t.get_text() for t in ax.get_xticklabels()], strict=True))
    assert ticks[100 * np.log(2)] == "× 2" and ticks[-10] == "−10 %"
    names = [label.get_text().replace("\n", " ") for label in ax.get_yticklabels()]
    assert names == ["It rises (a2020)", "It rises (a2020, in hundredths)"]


def test_what_is_beyond_a_seed_begins_where_a_seed_ends():
    table = pd.DataFrame({"own": [5.5, 7.0], "plain": [4.5, 5.0], "beyond": [0.5, 2.0]})
    table[["beyond low", "beyond high"]] = [[0.25, 0.75], [1.75, 2.25]]
    figure = plots.beyond_a_seed(table.set_axis(["cosine", "mos"]), "title")
    ax = figure.axes[0]
    seed, beyond = (bars for bars in ax.containers if isinstance(bars, BarContainer))
    assert [bar.get_width() for bar in seed] == [5.0, 6.0]
    assert [(bar.get_x(), bar.get_width()) for bar in beyond] == [(5.0, 0.5), (6.0, 2.0)]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["cosine", "mos"]


def test_single_models_are_rings_and_ensembles_marks_without_the_baseline():
    table = pd.DataFrame({"shared": [5, 5, 1], "single": [-7.0, 0.0, np.nan]})
    table[["single low", "single high"]] = [[-8.0, -6.0], [0.0, 0.0], [np.nan, np.nan]]
    table["together"] = [-9.0, 0.0, np.nan]
    table[["together low", "together high"]] = [[-9.5, -8.5], [0.0, 0.0], [np.nan, np.nan]]
    figure = plots.single_and_together(table.set_axis(["mos", "tied", "alone"]), "tied", "title")
    ax = figure.axes[0]
    rings, marks = (bars[0] for bars in ax.containers if isinstance(bars, ErrorbarContainer))
    assert (rings.get_xdata(), marks.get_xdata()) == ([-7.0], [-9.0])
    assert rings.get_markerfacecolor() == style.PAPER != marks.get_markerfacecolor()
    assert figure.legends[0].get_title().get_text() == ""
    table["shared"] = [2, 5, 1]
    figure = plots.single_and_together(table.set_axis(["mos", "tied", "alone"]), "tied", "title")
    assert figure.legends[0].get_title().get_text() == "without a bar: two seeds"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["mos (5 seeds)"]
