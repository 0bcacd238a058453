// A button on notebook pages that hides all code, for readers who want the argument alone.
document.addEventListener("DOMContentLoaded", () => {
  const heading = document.querySelector("article h1");
  if (!heading || !document.querySelector("div.cell_input")) return;
  const remembered = "companion-argument-only";
  const button = document.createElement("button");
  button.className = "code-switch";
  button.type = "button";
  const show = (hidden) => {
    document.body.classList.toggle("argument-only", hidden);
    button.textContent = hidden ? "Show code" : "Hide code";
    button.setAttribute("aria-pressed", String(hidden));
  };
  button.addEventListener("click", () => {
    const hidden = !document.body.classList.contains("argument-only");
    show(hidden);
    try { localStorage.setItem(remembered, hidden ? "1" : ""); } catch (error) { /* file pages */ }
  });
  let hidden = false;
  try { hidden = localStorage.getItem(remembered) === "1"; } catch (error) { /* file pages */ }
  show(hidden);
  heading.before(button);
});
