"""What one person asks for, and whether this site gives it to them.

The same check is behind the form, the REST API and saved options: :func:`checked` takes whatever
arrived and either returns a complete :class:`SessionRequest` or says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from portal.errors import RequestError
from portal.language.texts import N_, _
from portal.options.declared import Option, Shape, declared, options_of
from portal.options.mail import mail_words
from portal.options.profiles import fixed_by, narrowed, profile_of, profiles_of
from portal.settings.profile_tables import ProfileTable
from portal.settings.session_tables import PartitionTable
from portal.site import Identity, Site

WORDS_OF_A_LINK = N_("These are the choices of the link that you followed: check them, then press Start.")
USUAL = "-"  # in place of a choice: whatever is the usual one where the session goes; no name of Slurm's begins so


def _listed(label: str, meaning: str, hint: str) -> Option:
    return Option(Shape.LISTED, label, meaning, hint)


@dataclass(frozen=True)
class SessionRequest:
    """One session as a person asks for it: the one declaration of its options, in the order of the form.

    Where nothing is said, a number is 0 (cores and memory then follow from the GPUs), a name ``""``, and what a site
    lists ``None``: the first one.
    """

    partition: str = declared(
        "",
        Option(
            Shape.NAME,
            N_("Partition"),
            "the Slurm partition; the first that is offered when it is left out",
            is_of_site=True,
        ),
    )
    gpus: int = declared(
        1,
        Option(
            Shape.NUMBER,
            N_("GPUs"),
            "how many GPUs; 1 when it is left out",
            N_("All on one node; CPU cores and memory come with them."),
            within=lambda site, partition, kind, _: (0, site.gpus_max(partition, site.kind(partition, kind))),
        ),
    )
    hours: int = declared(
        0,
        Option(
            Shape.NUMBER,
            N_("Hours"),
            "after how many hours the session ends at the latest; the site's default when it is left out",
            N_(
                "The session ends when you stop it, at the latest after this time. "
                "The limit of each partition is below."
            ),
            unit=N_("hours"),
            within=lambda site, partition, *_: (1, site.hours_max(partition)),
        ),
    )
    gpu: str = declared(
        "",
        Option(
            Shape.NAME,
            N_("Kind of GPU"),
            "the kind of GPU, where a partition has several",
            N_("Which GPUs of the partition."),
            names=lambda partition: partition.kinds,
            is_choice=lambda partition: len(partition.kinds) > 1,
        ),
    )
    cores: int = declared(
        0,
        Option(
            Shape.NUMBER,
            N_("CPU cores without a GPU"),
            "CPU cores of a session without a GPU, where they may be chosen; 0 is what comes by itself",
            unit=N_("cores"),
            within=lambda site, partition, kind, gpus: (0, 0 if gpus else partition.cores_max or 0),
            is_choice=lambda partition: bool(partition.cores_max),
            usual=lambda site, partition: site.cores(0, partition),
        ),
    )
    memory_gb: int = declared(
        0,
        Option(
            Shape.NUMBER,
            N_("Memory without a GPU"),
            "memory of a session without a GPU in GB, where it may be chosen; 0 is what comes by itself",
            unit="GB",
            within=lambda site, partition, kind, gpus: (0, 0 if gpus else partition.memory_gb_max or 0),
            is_choice=lambda partition: bool(partition.memory_gb_max),
            usual=lambda site, partition: site.memory_mib(0, partition) // 1024,
        ),
    )
    account: str | None = declared(
        None, _listed(N_("Account"), "Slurm's account", N_("Slurm counts the session against it."))
    )
    qos: str | None = declared(
        None, _listed(N_("QOS"), "the QOS", N_("Its limits and its priority, as your site has set them."))
    )
    reservation: str | None = declared(
        None, _listed(N_("Reservation"), "the reservation", N_("Nodes that are kept for a group or a course."))
    )
    constraint: str | None = declared(
        None, _listed(N_("Nodes"), "the features that the node must have", N_("What the node must have."))
    )
    licenses: str | None = declared(
        None, _listed(N_("Licences"), "the licences", N_("The session waits until one is free."))
    )
    mail_type: str | None = declared(
        None,
        replace(
            _listed(
                N_("E-mail"), "when Slurm writes an e-mail, as sbatch names it", N_("Slurm writes to your account.")
            ),
            shown=mail_words,
        ),
    )
    profile: str = declared(
        "",
        Option(
            Shape.NAME,
            N_("Profile"),
            "a profile of the site, which fixes some of the others",
            is_choice=lambda partition: False,
            is_of_site=True,
        ),
    )

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> SessionRequest:
        """Read options as they arrive (numbers may be text).

        Raises:
            RequestError: an unknown key, or a value of the wrong kind.
        """
        for key in options:
            if key not in OPTIONS:
                raise RequestError("options", key, _("only the keys {names}").format(names=", ".join(OPTIONS)))
        read: dict[str, object] = {}
        for name, option in OPTIONS.items():
            if name in options:
                found = (_number if option.shape is Shape.NUMBER else _text)(option, options[name])
                read |= {} if found == USUAL else {name: found}
        return cls(**read)  # type: ignore[arg-type]

    def fill(self, site: Site, identity: Identity) -> SessionRequest:
        """The same request with the site's defaults where the person said nothing."""
        offered = site.offered_to(identity)
        partition = self.partition or (offered[0].name if offered else "")
        found = next((p for p in offered if p.name == partition), None)
        limit = site.hours_max(found) if found else site.session.hours_max
        return replace(self, partition=partition, hours=self.hours or min(site.session.hours_default, limit))

    def check(self, site: Site, identity: Identity) -> None:
        """Raise :class:`RequestError` unless this site offers this to this person."""
        offered = {p.name: p for p in site.offered_to(identity)}
        if self.partition not in offered:
            names = ", ".join(offered) or _("none (ask your administrator)")
            raise RequestError("partition", self.partition, _("one of {names}").format(names=names))
        partition = offered[self.partition]
        for option in OPTIONS.values():
            if option.shape is Shape.NUMBER:
                self._check_number(option, site, partition)
            elif not option.is_of_site:
                self._check_name(option, option.names(partition))

    def _check_number(self, option: Option, site: Site, partition: PartitionTable) -> None:
        """Cores and memory are chosen for sessions without a GPU alone, and where the site says how many."""
        given = getattr(self, option.name)
        lowest, highest = option.within(site, partition, self.gpu, self.gpus)
        if option.usual and given and not highest:
            fixed = _("nothing: they are fixed in {partition}").format(partition=partition.name)
            raise RequestError(option.name, given, _("nothing: they come with the GPUs") if self.gpus else fixed)
        if not lowest <= given <= highest:
            least = 1 if option.usual else lowest
            within = _("a whole number from {least} to {most}").format(least=least, most=highest)
            raise RequestError(option.name, given, within if highest > least else str(least))

    def _check_name(self, option: Option, offered: tuple[str, ...]) -> None:
        given = getattr(self, option.name)
        if given != option.default and given not in (offered or ("",)):
            names = ", ".join(name or _("none") for name in offered)
            nothing = _("nothing: {partition} has no choice of it").format(partition=self.partition)
            raise RequestError(option.name, given, _("one of {names}").format(names=names) if offered else nothing)

    def in_profile(self, profile: ProfileTable | None) -> SessionRequest:
        """The same request with what a profile fixes; without one that is not there any more."""
        return replace(self, profile=profile.name if profile else "", **fixed_by(profile))  # type: ignore[arg-type]

    def check_fixed(self, given: Mapping[str, object], profile: ProfileTable) -> None:
        """Raise :class:`RequestError` where ``given`` says otherwise than the profile, instead of nothing."""
        for key, value in fixed_by(profile).items():
            option = OPTIONS[key]
            may_be_unsaid = option.shape is not Shape.NUMBER or option.usual
            is_unsaid = key not in given or (may_be_unsaid and getattr(self, key) == option.default)
            if not is_unsaid and getattr(self, key) != value:
                fixed = _("{value}, as the profile {profile} fixes it")
                raise RequestError(key, given[key], fixed.format(value=value or _("none"), profile=profile.title))

    def chosen(self, key: str, partition: PartitionTable) -> str:
        """What ``sbatch`` is told for one of the choices: the person's, or the site's first; ``""`` is nothing."""
        given: str | None = getattr(self, key)
        return next(iter(partition.offers(key)), "") if given is None else given

    def share(self, site: Site) -> tuple[int, int]:
        """The cores and the memory (MiB) of the session, which follow from what was asked for."""
        partition = next((p for p in site.partitions if p.name == self.partition), None)
        cores = site.cores(self.gpus, partition, self.gpu)
        memory_mib = site.memory_mib(self.gpus, partition, self.gpu)
        return self.cores or cores, self.memory_gb * 1024 or memory_mib

    def as_options(self) -> dict[str, object]:
        """The request as plain JSON values, to be kept with the session: what was chosen, and nothing of the rest."""
        kept = {}
        for name, value in asdict(self).items():
            is_said = value is not None if OPTIONS[name].shape is Shape.LISTED else bool(value)
            if is_said or OPTIONS[name].is_choice is None:
                kept[name] = value
        return kept


OPTIONS = options_of(SessionRequest)  # by name
CHOICES = tuple(name for name, option in OPTIONS.items() if option.shape is Shape.LISTED)  # keys of [[partition]], too


def fields_of(site: Site, identity: Identity) -> tuple[str, ...]:
    """The fields that this person has to choose from on this site: those that all have, and those with a choice."""
    offered = site.offered_to(identity)
    return tuple(
        name
        for name, option in OPTIONS.items()
        if option.is_choice is None
        or any(option.is_choice(partition) for partition in offered)
        or (name == "profile" and profiles_of(site, identity))
    )


def checked(options: Mapping[str, object], site: Site, identity: Identity) -> SessionRequest:
    """Read, complete and check options: the one check behind form, link, REST and saved options.

    Raises:
        RequestError: names the field, the value given and what is allowed.
    """
    known = fields_of(site, identity)
    for key in options:
        if key not in known:
            raise RequestError("options", key, _("only the keys {names}").format(names=", ".join(known)))
    request = SessionRequest.from_options(options)
    if "hours" in options and request.hours == 0:
        raise RequestError("hours", options["hours"], _("a whole number from 1 up"))
    profile = profile_of(site, identity, request.profile)
    if profile:
        request.check_fixed(options, profile)
    elif request.profile:
        names = ", ".join(one.name for one in profiles_of(site, identity))
        raise RequestError("profile", request.profile, _("one of {names}").format(names=names))
    there = narrowed(site, identity, profile)
    request = request.in_profile(profile).fill(there, identity)
    request.check(there, identity)
    return request


def _number(option: Option, value: object) -> int:
    """A whole number out of JSON or a form; ``True``, ``1.5``, ``"1\\n"`` and ``"٣"`` are none. JSON's 1.0 is one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        return int(value)
    if value == "" and option.usual:
        return 0
    raise RequestError(option.name, value, _("a whole number"))


def _text(option: Option, value: object) -> str:
    if not isinstance(value, str):
        raise RequestError(option.name, value, _("a name, as text"))
    return value
