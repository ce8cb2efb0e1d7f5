// What no page may have, whatever a text says: a script that ran, markup that is not the page's own, a box outside the screen, or a text that hides.
() => {
  const faults = [];
  if (window.hacked !== undefined) faults.push("a script of a text ran");
  const own = new Set(
    "a b bdi button caption code dd del details div dl dt em fieldset footer form h1 h2 h3 h4 h5 header hr i img input kbd label legend li main nav ol optgroup option output p path polyline line circle rect g text pre progress q s search section select small span strong sub summary svg table tbody td textarea tfoot th thead time tr ul abbr article aside blockquote ins defs pattern".split(" "),
  );
  const where = (node) => `${node.tagName.toLowerCase()}${node.id ? "#" + node.id : ""}.${node.getAttribute("class") || ""}`.slice(0, 120);
  for (const node of document.querySelectorAll("body *")) {
    if (!own.has(node.tagName.toLowerCase())) faults.push(`markup: ${where(node)}`);
    for (const { name } of node.attributes) {
      if (/^(on|style$|srcdoc|background|formaction|autofocus)/.test(name) && !(name === "autofocus" && node.id === "key")) faults.push(`attribute ${name}: ${where(node)}`);
      if (/^(hx-|data-hx-)/.test(name) && !node.closest("[data-own], #live, form, [id]")) faults.push(`attribute ${name}: ${where(node)}`);
    }
    for (const name of ["href", "src", "action"]) {
      const value = node.getAttribute(name);
      if (value === null) continue;
      const url = new URL(value, location.href);
      if (url.origin !== location.origin && !(node.matches("a[rel~=noopener]") && /^(https?|mailto):/.test(url.protocol))) faults.push(`${name} to ${value.slice(0, 80)}: ${where(node)}`);
    }
  }
  const clipped = (node) => {
    for (let above = node.parentElement; above && above !== document.body; above = above.parentElement) {
      if (getComputedStyle(above).overflowX !== "visible") return above.getBoundingClientRect().right <= innerWidth + 1;
    }
    return false;
  };
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const node of document.querySelectorAll("main *")) {
    const box = node.getBoundingClientRect();
    if (box.width > 1 && (box.right > innerWidth + 1 || box.left < -1) && !clipped(node)) faults.push(`outside the screen: ${where(node)} in ${where(node.parentElement)}: ${node.textContent.slice(0, 60)}`);
  }
  const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const found = walker.currentNode.data.match(hidden);
    if (found) faults.push(`hidden character ${found[0].codePointAt(0).toString(16)} in ${where(walker.currentNode.parentElement)}`);
  }
  return [...new Set(faults)].slice(0, 20);
}
