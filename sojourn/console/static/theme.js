// Before anything is drawn: the choice between light and dark that this browser remembers.
(() => {
  try {
    const chosen = localStorage.getItem("sojourn-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {}
})();
