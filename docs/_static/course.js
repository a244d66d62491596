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
