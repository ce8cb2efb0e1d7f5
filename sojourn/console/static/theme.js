// Before anything is drawn: the choice between light and dark that this browser remembers, and that there is a script.
(() => {
  document.documentElement.dataset.script = "yes";
  try {
    const chosen = localStorage.getItem("sojourn-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {}
})();
