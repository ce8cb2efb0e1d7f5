// Named filters of the runs list, in the local storage of this browser.
(() => {
  const KEY = "sojourn-saved-filters";
  const list = document.getElementById("saved"), save = document.getElementById("save");
  if (!list) return;
  const read = () => {
    try {
      const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
      return Array.isArray(found) ? found.filter((each) => typeof each?.name === "string" && typeof each?.query === "string") : [];
    } catch { return []; } // another page may have written anything there, or nothing may be kept
  };
  const keep = (filters) => {
    try { localStorage.setItem(KEY, JSON.stringify(filters.slice(0, 30))); } catch { /* a private window keeps nothing */ }
    show();
  };
  const here = () => {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of [...query]) if (!value || name === "cursor") query.delete(name);
    return query.toString();
  };
  const show = () => {
    const filters = read();
    list.hidden = filters.length === 0;
    list.replaceChildren(...filters.map((each) => {
      const item = document.createElement("li"), link = document.createElement("a"), remove = document.createElement("button");
      link.textContent = each.name;
      link.href = `${location.pathname}?${each.query}`;
      if (each.query === here()) link.setAttribute("aria-current", "true");
      remove.type = "button";
      remove.className = "quiet";
      remove.textContent = "\u2715";
      remove.setAttribute("aria-label", `Remove ${each.name}`);
      remove.addEventListener("click", () => keep(read().filter((other) => other.query !== each.query)));
      item.append(link, remove);
      return item;
    }));
    if (save) save.hidden = filters.some((each) => each.query === here());
  };
  save?.addEventListener("click", () => {
    const field = document.createElement("input"), form = document.createElement("form"), button = document.createElement("button");
    form.className = "buttons";
    field.value = save.dataset.name;
    field.maxLength = 60;
    field.required = true;
    field.setAttribute("aria-label", "Name of the filter");
    button.textContent = "Save";
    form.append(field, button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      form.remove();
      keep([...read(), { name: field.value.trim() || save.dataset.name, query: here() }]);
    });
    list.after(form);
    save.hidden = true;
    field.select();
  });
  show();
})();
