"use strict";
const frame = document.querySelector("iframe"), chosen = parent.document.documentElement;
const scheme = () => (parent === window ? "" : `#${chosen.classList.contains("dark") ? "dark" : "light"}`);
const show = () => frame.setAttribute("src", frame.dataset.place + scheme());
const recolour = () => {
  const inner = frame.contentDocument?.location;  // none of a page without an origin
  if (inner) inner.replace(inner.href.split("#")[0] + scheme());
  else show();
};
// The pages cannot leave their frame: what leads to Airflow's own pages is opened as Airflow's own links are.
const lead = (event) => {
  const place = event.target.closest?.("a[target=_top]")?.href;
  if (!place || parent === window || !place.startsWith(`${location.origin}/`)) return;
  event.preventDefault();
  parent.history.pushState({}, "", place);
  parent.dispatchEvent(new PopStateEvent("popstate"));
};
frame.addEventListener("load", () => {
  if (!frame.contentDocument) return;
  frame.contentDocument.addEventListener("click", lead);
  if (frame.contentDocument.location.hash !== scheme()) recolour();
});
new MutationObserver(recolour).observe(chosen, { attributeFilter: ["class"] });
show();
