"""The lesson on language models in real Slurm jobs: a random model, and one out of a site's folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest

from tests.forms import LONG
from tests.notebooks.jobs import NO_GPU, Run, finished_run, in_a_job, own_folder

LESSON = "llm/finetune_and_serve"
FEW = {"pretraining_steps": 60, "steps": 40, "new_tokens": 16, "clients": 2}
PERPLEXITY = re.compile(r"^(\w+) +([\d,.]+) +([\d,.]+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def learned() -> Iterator[Run]:
    """One small run of the lesson, looked at by all tests."""
    with finished_run(LESSON, "llm-lesson", FEW, resources=NO_GPU) as run:
        yield run


def number(text: str) -> float:
    """A number as the lesson prints it."""
    return float(text.replace(",", ""))


def perplexities(run: Run) -> dict[str, tuple[float, float]]:
    """Before the fine-tuning and after it, by the kind of text."""
    found = PERPLEXITY.findall(run.text("fine-tune"))
    return {kind: (number(before), number(after)) for kind, before, after in found}


def test_a_random_model_says_early_that_it_is_one(learned: Run) -> None:
    said = learned.text("find-model")
    assert "There is no model in /cm/shared/datasets/models, /usr/share/datasets/models." in said
    assert "A RANDOM MODEL is made: it shows how things are done, not what a language model can write." in said


def test_it_learns_the_text_that_it_is_fine_tuned_on(learned: Run) -> None:
    before, after = perplexities(learned)["docstrings"]
    assert 1 < after < before
    assert "As expected: the perplexity is " in learned.text("check")
    assert learned.bars("base-model") == learned.bars("fine-tune") == [1.0]
    assert len(learned.shown("curves", "image/png")) == 1


def test_few_weights_learn_and_their_file_is_small(learned: Run) -> None:
    match = re.search(r"([\d,]+) weights learn, beside ([\d,]+) that stay", learned.text("fine-tune"))
    assert match
    assert number(match[1]) < 0.05 * number(match[2])
    sizes = dict(re.findall(r"^(the model|the adapter|merged) +([\d.]+) MB$", learned.text("adapter"), re.MULTILINE))
    assert float(sizes["the adapter"]) < 0.1 * float(sizes["the model"])
    assert sizes["merged"] == sizes["the model"]


def test_memory_and_speed_are_told_by_precision(learned: Run) -> None:
    printed = learned.text("speed")
    memory = [float(size) for size in re.findall(r"([\d.]+) MB of weights", printed)]
    assert memory == sorted(memory, reverse=True)
    assert len(memory) == 4
    for name in ("float32", "bfloat16"):
        assert len(re.findall(rf"^{name}((?: +[\d,]+){{4}})$", printed, re.MULTILINE)) == 1


def test_the_server_answers_in_a_private_folder_and_ends(learned: Run) -> None:
    assert learned.text("start-server").endswith("mode 700 of its folder\n")
    assert re.search(r"^2 clients: +[\d,]+ tokens/s", learned.text("ask"), re.MULTILINE)
    assert learned.text("stop-server") == "The server has ended with status 0\n"
    assert (learned.folder / "llm-runs" / "server.log").read_text() == ""


def test_nothing_puzzling_is_printed_to_stderr(learned: Run) -> None:
    assert {name: noise for name, noise in learned.stderr.items() if noise} == {}


if LONG:

    def test_a_model_of_the_site_is_taken_by_its_name_and_one_that_does_not_learn_is_found_out(learned: Run) -> None:
        folder = own_folder("llm-of-the-site")
        given = {**FEW, "model_folder": "merged", "precision": "bfloat16", "learning_rate": 0.0}
        run = in_a_job(LESSON, folder, given, [f"export MODEL_PATH={learned.folder}/llm-runs"], resources=NO_GPU)
        assert re.match(r"The model is /\S*/llm-runs/merged, \d+ MB of weights\n", run.text("find-model"))
        assert "code: step" not in run.text("base-model")
        assert run.text("stop-server") == "The server has ended with status 0\n"
        assert "the cell 'check' failed with AssertionError: The perplexity on docstrings was " in run.log
        shutil.rmtree(folder)

    def test_a_model_that_is_not_there_is_told_with_those_that_are(learned: Run) -> None:
        folder = own_folder("llm-without-model")
        run = in_a_job(
            LESSON,
            folder,
            {"model_folder": "nosuch"},
            [f"export MODEL_PATH={learned.folder}/llm-runs"],
            resources=NO_GPU,
        )
        assert run.status != 0
        assert "the cell 'find-model' failed with ModelError: There is no model 'nosuch'" in run.log
        assert "these folders have base, merged." in run.log
        shutil.rmtree(folder)
