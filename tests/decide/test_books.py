# SPDX-License-Identifier: GPL-2.0-only
"""What is kept goes through the decision as one value: no function takes its parts one by one."""

import ast
from pathlib import Path

ASA = Path(__file__).parents[2] / "asa"
MANY, MOST = 6, 4


def test_few_functions_of_the_decision_have_many_parameters():
    found = [
        f"{path.name}: {node.name}"
        for path in (*sorted((ASA / "decide").glob("*.py")), ASA / "pipeline.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and len({one.arg for one in (*node.args.args, *node.args.kwonlyargs)} - {"self", "cls"}) >= MANY
    ]
    assert len(found) <= MOST, found
