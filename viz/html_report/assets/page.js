/* Video controls, color theme and table of contents; creates all plots of the page. */
/** Connect the controls of a video: play, position, single steps, speed. */
function connectControls(figure) {
  const video = figure.querySelector("video"), fps = Number(figure.dataset.fps);
  const play = figure.querySelector("button.play"), position = figure.querySelector("input");
  const output = figure.querySelector("output");
  const count = () => Math.max(1, Math.round(video.duration * fps));
  const currentRow = () => Math.min(count() - 1, Math.floor(video.currentTime * fps + 1e-6));
  const toggle = () => { if (video.paused) video.play(); else video.pause(); };
  const update = () => {
    if (!video.duration) return;
    position.max = count() - 1;
    position.value = currentRow();
    output.textContent = `row ${currentRow() + 1} of ${count()}`;
    play.textContent = video.paused ? "Play" : "Pause";
  };
  video.controls = false;
  video.addEventListener("click", toggle);
  play.addEventListener("click", toggle);
  position.addEventListener("input", () => {
    video.pause();
    video.currentTime = (Number(position.value) + 0.5) / fps;
  });
  for (const name of ["loadedmetadata", "timeupdate", "seeked", "play", "pause"]) video.addEventListener(name, update);
  update();
  for (const button of figure.querySelectorAll("button[data-steps]")) {
    button.addEventListener("click", () => {
      video.pause();
      const frame = currentRow() + Number(button.dataset.steps);
      video.currentTime = (Math.min(Math.max(frame, 0), count() - 1) + 0.5) / fps;
    });
  }
  figure.querySelector("button.full").addEventListener("click", () => video.requestFullscreen());
  const speed = figure.querySelector("select");
  speed.addEventListener("change", () => { video.playbackRate = Number(speed.value); });
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
}

/** Highlight the current section in the table of contents. */
function highlightSection() {
  const links = new Map([...document.querySelectorAll("nav a[href^='#']")].map((a) => [a.hash.slice(1), a]));
  const sections = [...document.querySelectorAll("main > section")];
  const update = () => {
    const above = sections.filter((section) => section.getBoundingClientRect().top < innerHeight * 0.3);
    const current = (above.at(-1) || sections[0]).id;
    for (const [id, link] of links) {
      if (id === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener("scroll", update, { passive: true });
  update();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
setTheme(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
});
for (const figure of document.querySelectorAll("figure.chart")) new Chart(figure);
for (const figure of document.querySelectorAll("figure.codes")) new CodeMap(figure);
for (const figure of document.querySelectorAll("figure.video")) connectControls(figure);
highlightSection();
