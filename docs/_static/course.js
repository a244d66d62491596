// A formula that scrolls sideways can be reached, and moved, by the keyboard (WCAG 2.1.1); the
// theme does the same for code, tables and outputs.
const reachable = () => {
  for (const formula of document.querySelectorAll('mjx-container[display="true"]'))
    formula.tabIndex = formula.scrollWidth > formula.clientWidth ? 0 : -1;
};
window.addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  reachable();
  window.addEventListener("resize", reachable);
});
// The menu of the published versions is fetched, which a page from the file system cannot do.
if (location.protocol === "file:") {
  delete DOCUMENTATION_OPTIONS.theme_switcher_json_url;
  document.documentElement.classList.add("from-disk");
}
