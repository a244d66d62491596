  // Drawn in the page: sharp on every screen, anew at every size and in light and dark.
  function inkAndDark() {
    const ink = getComputedStyle(root).color;
    const [r, g, b] = ink.match(/[\d.]+/g).map(Number);
    return [ink, 0.3 * r + 0.6 * g + 0.1 * b > 140];
  }
  function fitted(canvas) {
    const scale = devicePixelRatio || 1, box = canvas.getBoundingClientRect();
    const [w, h] = [Math.round(box.width * scale), Math.round(box.height * scale)];
    if (w && h && (canvas.width !== w || canvas.height !== h)) { canvas.width = w; canvas.height = h; }
    return [w, h, scale];
  }
  function redrawn(canvases, draw) {
    for (const canvas of canvases) new ResizeObserver(draw).observe(canvas);
    const watch = new MutationObserver(draw);
    for (const e of [document.documentElement, document.body]) watch.observe(e, { attributes: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    draw();
  }
