"""Submissions: every choice is an option in argv; the golden lists are the promise."""

from __future__ import annotations

import pytest

from portal.launcher import _OPTION, _VARIABLE
from portal.options.mail import one_address
from portal.request import SessionRequest
from portal.site import Site
from portal.slurm.submission import submission

KEY = "0123456789abcdef"


def test_two_gpus_for_three_hours_word_for_word(site: Site) -> None:
    made = submission(SessionRequest("sxm2", 2, 3), site, KEY, {"JUPYTERHUB_API_TOKEN": "secret"})

    assert made.options == (
        "--job-name=dsportal-0123456789abcdef",
        "--partition=sxm2",
        "--nodes=1",
        "--ntasks=1",
        "--cpus-per-task=16",
        "--mem=98304M",
        "--gres=gpu:2",
        "--time=180",
        "--requeue",
        "--open-mode=append",
        "--export=ALL",
    )
    assert "secret" not in " ".join(made.options)


def test_no_gpu_asks_for_no_gres(site: Site) -> None:
    made = submission(SessionRequest("sxm2", 0, 1), site, KEY, {})

    assert not [option for option in made.options if "gres" in option]
    assert "--cpus-per-task=2" in made.options


def test_a_kind_of_gpu_is_named_as_slurm_names_it(site: Site) -> None:
    kind = site.gpus[0].model_copy(update={"gres": "gpu:v100"})

    made = submission(SessionRequest("sxm2", 1, 1), site.model_copy(update={"gpus": (kind,)}), KEY, {})

    assert "--gres=gpu:v100:1" in made.options


def writing(site: Site, *options: str) -> Site:
    """The site, where Slurm writes when a session ends."""
    partition = site.partition("sxm2").model_copy(update={"mail_type": "END", "options": options})
    return site.model_copy(update={"partitions": (partition,)})


ADDRESS = "alice.b+hpc@ai-lab.example.org"


def test_slurm_writes_to_the_address_of_the_directory_where_it_writes_at_all(site: Site) -> None:
    request = SessionRequest("sxm2", 0, 1)

    made = submission(request, writing(site), KEY, {}, ADDRESS)
    assert f"--mail-user={ADDRESS}" in made.options
    assert all(_OPTION.match(option) for option in made.options)
    for other in (
        submission(request, writing(site), KEY, {}),
        submission(request, site, KEY, {}, ADDRESS),
        submission(request, writing(site, "--mail-user=help@example.org"), KEY, {}, ADDRESS),
    ):
        assert f"--mail-user={ADDRESS}" not in other.options


@pytest.mark.parametrize(
    "values",
    [
        *([], ["a@b.example", "c@b.example"], [""], ["alice"], ["alice@host"], ["-a@b.example"], ["a b@c.example"]),
        *(["a@b.example,c@d.example"], ["a@b.example\n"], ["a;id@b.example"], ["$(id)@b.example"], ["a@-b.example"]),
        *(["a@b.example>x"], ["ä@b.example"], [f"{'a' * 65}@b.example"], [f"a@{'b.' * 130}example"], ["a@b..example"]),
    ],
)
def test_what_is_not_one_plain_address_is_none(values: list[str]) -> None:
    assert one_address(values) == ""
    assert not _OPTION.match(f"--mail-user={values[0]}") if len(values) == 1 else True


def test_one_plain_address_is_one_for_the_launcher_too() -> None:
    for plain in (ADDRESS, "x@y.zz", "A_B-c@1.2.example"):
        assert one_address([plain]) == plain
        assert _OPTION.match(f"--mail-user={plain}")


def test_the_launcher_knows_every_option_and_no_other(site: Site) -> None:
    made = submission(SessionRequest("sxm2", 4, 24), site, KEY, {})

    assert all(_OPTION.match(option) for option in made.options)
    for foreign in (
        "--wrap=id",
        "--uid=0",
        "--partition=a b",
        "--partition=sxm2\n",
        "--nodes=2",
        "script.sh",
        "--mem=1G;id",
    ):
        assert not _OPTION.match(foreign)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "PYTHONPATH", "BASH_ENV", "JUPYTERHUB_x", "SLURM_CONF"])
def test_the_launcher_takes_no_variable_that_changes_how_programs_run(name: str) -> None:
    assert not _VARIABLE.match(name)


@pytest.mark.parametrize("key", ["", "abc", KEY + "0", KEY + "\n", "../../../../etc", KEY.upper()])
def test_a_key_is_sixteen_hexadecimal_digits(site: Site, key: str) -> None:
    with pytest.raises(ValueError, match="16 hexadecimal"):
        submission(SessionRequest("sxm2", 1, 1), site, key, {})
