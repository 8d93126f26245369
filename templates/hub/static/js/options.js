// The instance options: the limits of the chosen partition, and the whole choice in one sentence.
// Without this script the form works; the hub checks every value in any case.
"use strict";

(() => {
  const form = document.getElementById("spawn_form");
  const hours = document.getElementById("hours");
  const summary = document.getElementById("options-summary");
  if (!hours) return;
  const gpus = [...form.querySelectorAll("input[name=gpus]")];

  const chosen = (name) => form.querySelector(`input[name=${name}]:checked`);

  function limitGpus(most) {
    gpus.forEach((radio) => {
      radio.disabled = Number(radio.value) > most;
    });
    if (!chosen("gpus") || chosen("gpus").disabled) {
      gpus.filter((radio) => !radio.disabled).at(-1).checked = true;
    }
  }

  function limitHours(most) {
    hours.max = most;
    document.getElementById("hours-limit").textContent = gettext("hours, at most {most}", { most });
  }

  function describe() {
    const what = { gpus: chosen("gpus").dataset.words, partition: chosen("partition").value, hours: hours.value };
    const hasHours = hours.validity.valid && hours.value;
    summary.textContent = hasHours
      ? gettext("{gpus} in {partition} for {hours} h", what)
      : gettext("{gpus} in {partition}", what);
    summary.hidden = false;
  }

  function follow(event) {
    const partition = chosen("partition");
    if (!partition) return;
    limitGpus(Number(partition.dataset.gpusMax));
    limitHours(Number(partition.dataset.hoursMax));
    // A value that the person just moved out of the limits by choosing another partition follows the limit.
    if (event && event.target.name === "partition" && hours.validity.rangeOverflow) hours.value = hours.max;
    describe();
  }

  form.addEventListener("change", follow);
  hours.addEventListener("input", describe);
  follow();
})();
