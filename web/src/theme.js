// Runs in the head, before anything is painted: light or dark, as chosen here or else as the system is.

(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("nora-theme");
  } catch {
    // Storage may be forbidden for local files.
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const theme = chosen === "light" || chosen === "dark" ? chosen : dark.matches ? "dark" : "light";
    document.documentElement.dataset.theme = theme;
  };
  dark.addEventListener?.("change", () => {
    if (chosen === null) apply();
  });
  apply();
  window.noraTheme = {
    toggle() {
      chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem("nora-theme", chosen);
      } catch {
        // As above: the choice lasts as long as the page.
      }
      apply();
    },
  };
})();
