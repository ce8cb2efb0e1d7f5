// What has just come, changed or moved is read before it is decided: for a moment the buttons of a wait are inert, for mouse, touch and keys alike.
(() => {
  "use strict";
  const READING = 800, MOVED = 8;
  const BUTTON = "button[name=do]";
  const known = new WeakMap(); // by form: what it shows, where its buttons are, and until when they are inert

  const placeOf = (form) => {
    const box = form.querySelector(BUTTON)?.getBoundingClientRect();
    return box ? [box.left, box.top] : [0, 0];
  };
  const isInert = (form) => (known.get(form)?.until ?? Infinity) > performance.now();
  const arm = (form) => {
    const of = known.get(form);
    clearTimeout(of.timer);
    of.until = performance.now() + READING;
    form.dataset.arming = "";
    of.timer = setTimeout(() => { delete form.dataset.arming; }, READING);
  };

  // A new form, other contents, or buttons that something else has moved.
  const look = (isOwnMove = false) => {
    for (const form of document.querySelectorAll("form[data-wait]")) {
      const of = known.get(form), shown = form.dataset.wait, place = placeOf(form);
      const isMoved = of && !isOwnMove && place.some((at, axis) => Math.abs(at - of.place[axis]) > MOVED);
      if (!of) known.set(form, { shown, place, until: 0, timer: 0 });
      else Object.assign(of, { shown, place, wasShown: of.shown });
      if (!of || of.wasShown !== shown || isMoved) arm(form);
      else if (isInert(form)) form.dataset.arming = "";
    }
  };
  look();
  new MutationObserver(() => look()).observe(document.documentElement, { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["data-wait", "open"] });

  // Whoever scrolls knows that things move; what scrolls by itself does not say so.
  let acted = 0;
  for (const name of ["wheel", "touchmove", "pointerdown", "keydown"]) addEventListener(name, () => { acted = performance.now(); }, { capture: true, passive: true });
  addEventListener("scroll", () => look(performance.now() - acted < 500), { capture: true, passive: true });
  addEventListener("resize", () => look(true));

  // The second half of a double click is of what was there before; whoever clicks on and on has not read.
  document.addEventListener("click", (event) => {
    const form = event.target.closest?.("form[data-wait]");
    if (!form || !event.target.closest(`${BUTTON}, .buttons`)) return;
    if (isInert(form)) arm(form);
    else if (event.detail < 2) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-wait]") || !isInert(form)) return;
    const writes = document.activeElement?.matches("textarea, input") && form.contains(document.activeElement);
    if (writes && !form.elements.digest) return; // an answer that somebody has written here
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  // A key that came too early: see inbox.js.
  document.addEventListener("early", (event) => { if (known.has(event.target)) arm(event.target); }, true);
})();
