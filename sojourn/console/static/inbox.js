// The inbox: the address follows what is open, and keys go to its buttons.
(() => {
  "use strict";
  const narrow = matchMedia("(max-width: 60rem)");

  // On a narrow screen the list and what is open are pages of their own.
  document.addEventListener("click", (event) => {
    if (narrow.matches && event.target.closest?.("#list a[hx-get]")) event.stopImmediatePropagation();
  }, true);

  // The address, the title and the focus follow what is open.
  const settled = () => {
    const place = document.getElementById("place");
    if (!place) return;
    const url = new URL(place.dataset.url, location.href).href;
    if (url === shown) return;
    shown = url;
    history.pushState(null, "", url);
    page = here();
    document.title = place.dataset.title;
    document.querySelector("#list [aria-current]")?.scrollIntoView({ block: "nearest" });
    scrollTo(0, 0);
    if (document.activeElement === document.body) document.getElementById("wait-title")?.focus({ preventScroll: true });
  };
  const here = () => location.pathname + location.search;
  let shown = location.href, page = here();
  const first = document.getElementById("place");
  if (first) shown = new URL(first.dataset.url, location.href).href;
  document.querySelector("#list [aria-current]")?.scrollIntoView({ block: "nearest" });
  addEventListener("popstate", () => { if (here() !== page) location.reload(); }); // else somebody goes to a part of this page
  document.addEventListener("htmx:after:swap", () => {
    aimed = null;
    settled();
    const wrong = document.querySelector("#open [aria-invalid], #open .problem");
    if (wrong && document.activeElement === document.body) (wrong.matches("input, select, textarea") ? wrong : wrong.querySelector("input") ?? document.querySelector("#open [aria-invalid]") ?? document.getElementById("wait-title"))?.focus();
  });

  // Whoever has opened another wait before the answer came, stays there, and is told what became of the first.
  document.addEventListener("htmx:before:swap", ({ detail: { ctx, tasks } }) => {
    const { sourceElement: from, response } = ctx;
    if (!from?.matches?.("form") || from.isConnected || response?.status !== 200) return;
    tasks.splice(0, tasks.length, ...tasks.filter((task) => task.target?.id === "said"));
  });

  // A key goes to a button first: nobody decides by a slip. Where an answer is written, to its first field. Keys that come before what
  // is newly shown could be read were meant for what was shown before (arming.js).
  let aimed = null;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && document.activeElement?.matches("textarea")) {
      document.activeElement.form?.requestSubmit(document.activeElement.form.querySelector("button.primary"));
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = document.activeElement;
    if (at?.matches("input, textarea, select, [contenteditable]")) return;
    const armed = document.querySelector(`#open [data-arm="${CSS.escape(event.key)}"]`)
      ?? (event.key === "a" ? document.querySelector("#open form :is(input:not([type=hidden]), select, textarea)") : null);
    if (!armed) return;
    event.preventDefault();
    const early = armed.matches("button") && armed.closest("[data-arming]");
    if (early) (aimed = null, early.dispatchEvent(new Event("early")));
    else if (armed === at && armed === aimed) { if (!event.repeat) armed.click(); }
    else (aimed = armed.matches("button") ? armed : null, armed.focus());
  });
})();
