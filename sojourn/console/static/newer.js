// What comes while somebody reads: it is held back and told in a line, and is at the end once that is pressed, or in sight.
(() => {
  "use strict";
  const held = document.getElementById("held"), line = document.getElementById("newer"), end = document.getElementById("end");
  const list = document.getElementById(held.dataset.list), link = line.querySelector("a");
  let isAtEnd = false, isFull = false;

  const tell = () => {
    const count = held.children.length;
    link.hidden = !count && !isFull;
    const text = isFull ? `Much has come since: the last ${line.dataset.many}`
      : count ? `${count} new ${count === 1 ? line.dataset.one : line.dataset.many}: show` : "";
    if (link.textContent !== text) link.textContent = text;
    if (isFull) link.href = line.dataset.last;
  };
  const show = () => {
    if (held.children.length) document.querySelector(".empty")?.remove();
    list.append(...held.children);
    tell();
  };
  const arrange = () => {
    for (const each of [...held.children]) {
      const known = document.getElementById(each.id); // what came twice, or has grown
      if (known === each) continue;
      if (known.textContent === each.textContent) each.remove();
      else known.replaceWith(each);
    }
    if (isAtEnd && !isFull) show();
    else tell();
  };

  tell();
  new MutationObserver(arrange).observe(held, { childList: true });
  new IntersectionObserver((seen) => {
    isAtEnd = seen.at(-1).isIntersecting;
    if (isAtEnd) arrange();
  }).observe(end);
  document.addEventListener("overfull", () => { isFull = true; tell(); });
  line.addEventListener("click", (event) => {
    const first = held.firstElementChild;
    if (isFull || !first || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show();
    first.tabIndex = -1;
    first.focus({ preventScroll: true });
    first.scrollIntoView({ block: "center" });
  });
})();
