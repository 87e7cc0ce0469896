// Runs before the first paint, so that a chosen theme never flashes in the other one's colours.
(() => {
  let theme;
  try {
    theme = localStorage.getItem('leveret.theme');
  } catch {
    // Storage is switched off: the system's theme it is.
  }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
