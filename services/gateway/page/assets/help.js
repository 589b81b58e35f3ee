// The explanation of an option: a button beside its label that shows and hides it, for touch and keyboard as well.
export function addHelp(option, text) {
  const input = option.querySelector("input");
  const help = document.createElement("p");
  help.id = `help-${input.id}`;
  help.textContent = text;
  help.hidden = true;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "help";
  button.textContent = "?";
  button.title = text;
  button.setAttribute("aria-label", `About ${option.querySelector("label").textContent}`);
  button.setAttribute("aria-controls", help.id);
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    help.hidden = !help.hidden;
    button.setAttribute("aria-expanded", String(!help.hidden));
    option.classList.toggle("explained", !help.hidden);
  });
  input.setAttribute("aria-describedby", help.id);
  option.append(button, help);
}
