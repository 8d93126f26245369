"""The main job of the portal as one story in a browser: each test is the next step of the same person, alice."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.portal_page import (
    assert_accessible,
    gpus_in_use,
    jobs_of,
    log_in,
    log_in_as,
    picture,
    refusal,
    submit_as,
)
from tests.inside import eventually, home, sh

LAB_DEADLINE_MS = 90_000
TRAINING_DEADLINE_S = 300

broken_step = ""  # the name of the first step that failed; conftest.py fills it in


@pytest.fixture(scope="module", autouse=True)
def _a_first_visit() -> Iterator[None]:
    """JupyterLab opens as for the first time; after a step that failed, the cluster is free for the next tests."""
    for made_earlier in (".jupyter", ".local", "templates"):
        shutil.rmtree(home("alice") / made_earlier, ignore_errors=True)
    (home("alice") / "where.txt").unlink(missing_ok=True)
    yield
    sh("scancel", "--user=alice")


def test_the_login_page_bears_the_portals_name(page: Page) -> None:
    page.goto("/")

    expect(page.get_by_role("heading", name="Data Scientist Portal", level=1)).to_be_visible()
    expect(page).to_have_title(re.compile("Data Scientist Portal"))
    expect(page.get_by_text("Your user name and password are the cluster’s.")).to_be_visible()
    assert_accessible(page, "login page")
    picture(page, "01-login")


def test_a_wrong_password_and_a_wrong_name_get_the_same_message(page: Page) -> None:
    log_in(page, "alice", "wrong")
    wrong_password = refusal(page)
    picture(page, "02-wrong-password")
    log_in(page, "nobody-here", "wrong")

    assert refusal(page) == wrong_password
    assert_accessible(page, "login page with a message")


def test_the_right_password_of_somebody_who_is_not_allowed_gets_another_message(page: Page) -> None:
    log_in(page, "mallory", "mallory-wrong")
    wrong_password = refusal(page)
    log_in(page, "mallory", "mallory-demo")

    assert "not allowed" in refusal(page)
    assert refusal(page) != wrong_password
    picture(page, "03-not-allowed")


def test_alice_logs_in_and_lands_on_the_server_page(page: Page) -> None:
    log_in_as(page, "alice")

    expect(page.get_by_role("heading", name="Not running")).to_be_visible()
    expect(page.get_by_role("button", name="Start My Server")).to_be_visible()
    assert_accessible(page, "server page")
    picture(page, "04-server-page")


def test_the_options_show_what_comes_with_each_number_of_gpus_and_the_limits(page: Page) -> None:
    page.get_by_role("button", name="Start My Server").click()

    for words in ("0 GPUs 2 cores 8 GB", "1 GPU 8 cores 48 GB", "4 GPUs 32 cores 192 GB"):
        expect(page.get_by_role("radio", name=words)).to_be_visible()
    expect(page.get_by_label("Hours", exact=True)).to_have_value("8")
    expect(page.get_by_role("radio", name=re.compile("^sxm2 .*up to 24 h, 4 GPUs"))).to_be_checked()
    expect(page.get_by_role("radio", name=re.compile("^requestq .*up to 8 h, 4 GPUs"))).to_be_visible()
    expect(page.get_by_role("radio", name=re.compile("^(iq|hipri) "))).to_have_count(0)
    assert_accessible(page, "options")
    picture(page, "05-options")


def test_choosing_a_partition_shows_its_limit_and_keeps_the_hours_inside(page: Page) -> None:
    page.get_by_label("Hours", exact=True).fill("20")
    page.get_by_role("radio", name=re.compile("^requestq ")).check()

    expect(page.get_by_label("Hours", exact=True)).to_have_value("8")
    expect(page.get_by_text("hours, at most 8")).to_be_visible()
    expect(page.get_by_text("1 GPU, 8 cores and 48 GB memory in requestq for 8 h")).to_be_visible()


@pytest.fixture(scope="module")
def full_partition() -> Iterator[int]:
    """Somebody else has all GPUs of sxm2: the next job waits in the queue."""
    job = submit_as("bob", "--partition=sxm2", "--nodes=3", "--gres=gpu:4", "--wrap=sleep 600")
    eventually(lambda: [j for j in jobs_of("bob") if j.id == job and j.state == "RUNNING"], "bob's job runs")
    yield job
    sh("scancel", str(job))


def test_a_session_with_one_gpu_waits_in_the_queue_and_the_page_says_so(page: Page, full_partition: int) -> None:
    page.get_by_role("radio", name="1 GPU 8 cores").check()
    page.get_by_role("radio", name=re.compile("^sxm2 ")).check()
    page.get_by_role("button", name="Start").click()

    expect(page.get_by_role("heading", name="Your session is starting")).to_be_visible()
    [job] = eventually(lambda: jobs_of("alice"), "alice's job is in the queue")
    assert (job.state, job.partition) == ("PENDING", "sxm2")
    assert re.search(r"gpu(:\w+)?:1\b", job.gres)
    expect(page.get_by_role("status").filter(has_text=f"Job {job.id} waits")).to_be_visible()
    assert_accessible(page, "pending page")
    picture(page, "06-waiting")


def test_the_server_page_knows_of_the_waiting_session(page: Page) -> None:
    page.get_by_role("link", name="My Server").click()

    expect(page.get_by_role("heading", name="Waiting in the queue")).to_be_visible()
    picture(page, "07-server-page-waiting")
    loaded = page.evaluate(
        "performance.getEntriesByType('resource').map(e => [e.name, e.encodedBodySize, e.decodedBodySize])"
    )
    texts = [
        (name, sent, whole) for name, sent, whole in loaded if re.search(r"\.(js|css)(\?|$)", name) and whole > 1024
    ]
    assert texts
    assert [name for name, sent, whole in texts if sent > whole * 0.7] == []
    assert [name for name, *_ in loaded if "woff" in name] == []
    page.get_by_role("button", name="See how it waits").click()
    expect(page.get_by_role("heading", name="Your session is starting")).to_be_visible()


def test_when_there_is_room_the_page_follows_into_jupyterlab(page: Page, full_partition: int) -> None:
    sh("scancel", str(full_partition))

    page.wait_for_url(re.compile("/user/alice/lab"), timeout=LAB_DEADLINE_MS)
    expect(page.locator(".jp-Launcher")).to_be_visible(timeout=LAB_DEADLINE_MS)
    [job] = jobs_of("alice")
    assert job.state == "RUNNING"
    picture(page, "08-jupyterlab")


def test_jupyterlabs_files_come_from_the_hubs_host_as_the_pages_before_fetched_them(page: Page, address: str) -> None:
    loaded = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    labs = [url for url in loaded if re.search(r"/static/lab/|/dsportal/lab/", url)]
    begins = re.compile(re.escape(f"{address}/hub/dsportal/lab/") + "[0-9a-f]{16}/")

    assert [url for url in labs if not begins.match(url)] == []
    folder = begins.match(labs[0])
    assert folder
    first = page.request.get(f"{folder[0]}first.json").json()
    names = {begins.sub("", url) for url in labs}
    assert names <= set(first)
    assert len(names) > len(first) / 2


def test_jupyterlab_asks_for_its_settings_once_and_for_nothing_that_no_session_has(page: Page) -> None:
    loaded = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")

    assert [url for url in loaded if re.search("/lab/api/build|/lsp/|jupyterlab_pygments", url)] == []
    expect(page.locator("[data-id='jp-debugger-sidebar']")).to_have_count(0)
    assert len([url for url in loaded if re.search(r"/lab/api/settings/?\?\d", url)]) == 1


def entry(page: Page, name: str) -> Locator:
    """An entry of the file browser."""
    return page.locator(".jp-DirListing-item", has=page.get_by_text(name, exact=True))


def test_the_files_show_the_templates_and_the_big_storage(page: Page) -> None:
    expect(entry(page, "templates")).to_be_visible()
    expect(entry(page, "isilon")).to_be_visible()


def test_the_launcher_offers_python_r_and_tensorflow_from_its_module(page: Page) -> None:
    notebooks = page.locator('.jp-LauncherCard[data-category="Notebook"] .jp-LauncherCard-label')

    expect(notebooks.filter(has_text=re.compile("^TensorFlow"))).to_be_visible()
    offered = {label.strip() for label in notebooks.all_inner_texts()}
    assert offered >= {"Python 3", "R", "TensorFlow 2.21", "Keras 3.15"}


def test_a_terminal_runs_in_the_job(page: Page) -> None:
    page.locator(".jp-LauncherCard", has_text="Terminal").click()
    terminal = page.locator(".jp-Terminal textarea")
    terminal.wait_for(state="attached")
    terminal.focus()
    page.keyboard.type("(hostname; echo $SLURM_JOB_ID) | tee where.txt\n")

    written = eventually(lambda: words_of(home("alice") / "where.txt"), "the terminal wrote its file", 30)
    [job] = jobs_of("alice")
    assert written[-1] == str(job.id)
    picture(page, "09-terminal")


def test_what_was_open_is_open_again_and_no_launcher_beside_it(page: Page) -> None:
    def saved() -> bool:
        return any('"terminal' in file.read_text() for file in (home("alice") / ".jupyter/lab/workspaces").glob("*"))

    eventually(saved, "JupyterLab has saved what is open", 30)
    page.reload()

    expect(page.locator(".jp-Terminal")).to_be_visible(timeout=LAB_DEADLINE_MS)
    expect(entry(page, "templates")).to_be_visible(timeout=LAB_DEADLINE_MS)
    expect(page.locator(".jp-Launcher")).to_have_count(0)


def words_of(path: Path) -> list[str]:
    """The words of a file once it holds at least two."""
    words = path.read_text().split() if path.is_file() else []
    return words if len(words) >= 2 else []


def test_the_tensorflow_template_opens(page: Page) -> None:
    for name in ("templates", "tensorflow", "mnist.ipynb"):
        entry(page, name).dblclick()

    expect(page.get_by_role("tab", name="mnist.ipynb")).to_be_visible()
    expect(page.get_by_role("heading", name="MNIST: train your first image classifier")).to_be_visible()
    expect(page.get_by_text("tensorflow/mnist is a template: you can run it here")).to_be_visible()
    kernel = page.get_by_role("button", name="TensorFlow 2.21", exact=True)
    expect(kernel).to_be_visible()
    # JupyterLab can lose a kernel that is restarted while it still starts, so a person's pace is kept here.
    expect(page.get_by_text("TensorFlow 2.21 | Idle")).to_be_visible(timeout=LAB_DEADLINE_MS)
    picture(page, "10-template")


def test_restart_and_run_all_trains_three_epochs_to_a_good_accuracy(page: Page) -> None:
    """With a third of the images, as the notebook suggests; `make test-notebooks-browser` takes all of them."""
    page.locator(".cm-line", has_text="train_images = 60_000").click()
    for key in ("Home", "Shift+End"):
        page.keyboard.press(key)
    page.keyboard.type("train_images = 20_000")
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("Restart Kernel and Run All Cells")).click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()

    output = page.locator(".jp-OutputArea-output")
    for epoch in (1, 2, 3):  # Keras's own line above the bar of each
        output.filter(has_text=f"Epoch {epoch}/3").first.wait_for(state="attached", timeout=TRAINING_DEADLINE_S * 1000)
    expect(output.filter(has_text=": 20,000 images to learn from")).to_have_count(1)
    last = output.filter(has_text="Final Test Accuracy").first
    last.wait_for(state="attached", timeout=TRAINING_DEADLINE_S * 1000)
    accuracy = re.search(r"Final Test Accuracy ([\d.]+)", last.text_content() or "")
    assert accuracy and float(accuracy[1]) > 0.8
    last.scroll_into_view_if_needed()
    picture(page, "11-trained")


def shows_accuracies(board: Page) -> None:
    """TensorBoard shows the scalars of the training."""
    expect(board).to_have_title(re.compile("TensorBoard$"), timeout=LAB_DEADLINE_MS)
    card = board.locator("scalar-card", has_text="batch_accuracy")
    expect(card).to_contain_text("Smoothed", timeout=LAB_DEADLINE_MS)  # the table of values below the curve
    board.wait_for_load_state("networkidle")


def test_tensorboard_opens_for_the_selected_folder_in_a_tab_of_its_own(page: Page, context: BrowserContext) -> None:
    entry(page, "logs").click()
    with context.expect_page() as opened:
        page.get_by_role("button", name="TensorBoard").click()

    shows_accuracies(opened.value)
    picture(opened.value, "12-tensorboard")
    opened.value.close()


def test_tensorboard_opens_by_its_address_and_a_click(context: BrowserContext) -> None:
    board = context.new_page()
    board.goto("/user/alice/tensorboard/open?path=templates/tensorflow/logs")
    board.get_by_role("link", name="Open it").click()

    shows_accuracies(board)
    board.close()


@pytest.fixture(scope="module")
def control_panel(page: Page, context: BrowserContext) -> Page:
    """The server page, as the menu of JupyterLab opens it."""
    page.get_by_role("menuitem", name="File", exact=True).click()
    with context.expect_page() as opened:
        page.get_by_role("menuitem", name="Hub Control Panel").click()
    return opened.value


def test_the_control_panel_shows_the_session(control_panel: Page) -> None:
    [job] = jobs_of("alice")

    expect(control_panel.get_by_role("heading", name="Running")).to_be_visible()
    expect(control_panel.get_by_role("term")).to_contain_text(["GPUs", "Partition", "Node", "Slurm job", "Ends"])
    row = control_panel.locator("div", has=control_panel.get_by_role("term").get_by_text("Slurm job", exact=True)).last
    expect(row.get_by_role("definition")).to_have_text(str(job.id))
    assert_accessible(control_panel, "server page of a running session")
    picture(control_panel, "13-control-panel")


def test_stop_my_server_ends_the_job_and_frees_its_gpu(page: Page, control_panel: Page) -> None:
    page.goto("about:blank")  # six requests of JupyterLab that wait for its server are all that Chromium has at a time
    in_use = gpus_in_use()
    assert in_use >= 1
    control_panel.get_by_role("button", name="Stop My Server").click()

    eventually(lambda: not jobs_of("alice"), "the job has left squeue", 15)
    eventually(lambda: gpus_in_use() == in_use - 1, "its GPU is free", 15)
    expect(control_panel.get_by_role("heading", name="Not running")).to_be_visible()
    picture(control_panel, "14-stopped")
