# SPDX-License-Identifier: GPL-2.0-only
"""What was found on a machine (`asa.decide.proof`), read from where it is kept, and as a part of the report's page.

Of this machine it is read from the agent's own files, of a journal from what its newest session began with.
"""

import os

import msgspec

import asa
from asa import config, host, paths, wire
from asa.act.portfolio import Portfolio
from asa.config import Learn
from asa.decide import learning, proof, table
from asa.decide.proof import Answer, Here, Proof, Use
from asa.decide.trial_budget import Stand
from asa.journal import SessionHeader
from asa.report import words
from asa.report.markup import Markup, element
from asa.report.tables import cell, section, words_cell
from asa.report.tables import table as rows_of

_TONES = {Answer.BETTER: "good", Answer.NO_DIFFERENCE: "", Answer.NOT_YET: "soft"}


def of_host(places: paths.Places) -> Proof:
    """Of this machine, with its mapping table. Raises InputError for a file that is damaged or cannot be read."""
    settings = config.load(places.config)
    portfolio = Portfolio.of_host(settings.switch, places.schedulers)
    kept = learning.load(places.state / learning.LEARNING)
    present = table.Present.of(portfolio)
    mapping = table.for_this_machine(portfolio.modes(), settings.table, places=places, present=present)
    release, cpu = os.uname().release, host.cpu_model(places.proc)
    stand = Stand(kernel=release, versions=portfolio.versions(release, cpu))
    here = Here(asa_version=asa.__version__, machine=cpu, learn=settings.policy.learn, stand=stand)
    return proof.of(kept, mapping, here)


def of_session(header: SessionHeader) -> Proof | None:
    """Of the machine of a journal, when a session began; None: the session says nothing of it."""
    if not header.learning:
        return None
    try:
        kept = learning.of_text(header.learning)
    except msgspec.DecodeError:
        return None
    here = Here(
        asa_version=header.asa_version,
        machine=header.host,
        learn=_learn(header.settings),
        stand=Stand(kernel=header.kernel, versions=header.versions),
    )
    return proof.of(kept, None, here)


def part(found: Proof) -> Markup:
    """The part of the report's page."""
    since = "" if found.since_ns is None else f"since {words.moment(found.since_ns)}, "
    share = "" if not found.watched_s else f" ({words.percent(found.tried_s / found.watched_s)})"
    cost = (
        f"Watched {since}{words.duration(found.watched_s)}; {words.duration(found.tried_s)}{share} under candidates, "
        f"{words.counted(found.switches, 'switch', 'switches')} for what is listed. Energy is not measured."
    )
    rows = [
        (cell(use.use), cell(element("span", use.answer, class_=_TONES[use.answer])), cell(use.serves), _told(use))
        for use in found.uses
    ]
    listed = rows_of(("class", "answer", "served by", "what was found"), rows, "", id_="proof-uses")
    sentence = element("p", element("b", found.sentence), id="proof-sentence")
    return section("proof", "What is better here", sentence, element("p", cost, class_="soft"), listed)


def _told(use: Use) -> Markup:
    lines = [proof.words(one) for one in use.found]
    if use.following:
        lines.append(f"{use.following} is next to be tried")
    return words_cell("; ".join(lines))


def _learn(settings: str) -> Learn:
    try:
        return wire.from_json(settings, config.Settings).policy.learn
    except msgspec.DecodeError:  # of a version with other settings
        return Learn.ON
