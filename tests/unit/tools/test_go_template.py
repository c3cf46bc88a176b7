"""The renderer of the tests makes of templates what Go makes of them, and refuses what it does not know."""

import pytest

from tests.tools.go_template import NotInOurPart, render


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a {{ .x }} b", "a 1 b"),
        ("a\n {{- .x }} b", "a1 b"),
        ("a {{ .x -}} \n b", "a 1b"),
        ("{{ if .no }}a{{ else }}b{{ end }}", "b"),
        ("{{ if .x }}{{ if .no }}a{{ end }}c{{ else }}b{{ end }}", "c"),
        ("{{ if .missing }}{{ nothing }}{{ end }}", ""),
        ("{{ with .m }}{{ .k }}{{ end }}", "v"),
        ("{{ with .empty }}a{{ else }}{{ .x }}{{ end }}", "1"),
        ('{{ .s | replace "a" .t2 }}', 'x"b'),
        ('{{ .s | quote }}', '"a\\"b"'),
        ('{{ "x" | default .s | printf "%s-%s" "y" }}', "y-x"),
        ('{{ .l | join "," }}', "p,q"),
        ("k:\n  {{- toYaml .m | nindent 2 }}", "k:\n  k: v"),
        ('{{ if eq .s "a" }}a{{ end }}{{ if ne .x 2 }}b{{ end }}', "b"),
        ("{{ .t }}", "true"),
        ("{{ if and .x .no }}a{{ end }}{{ if or .no .x }}b{{ end }}{{ if not .no }}c{{ end }}", "bc"),
        ('{{ if eq .x 2 | or .no .empty }}a{{ else }}b{{ end }}', "b"),
        ('{{ if .x | int | ge 1 }}a{{ end }}{{ .l | first }}{{ .l | toJson }}', 'ap["p","q"]'),
    ],
)  # fmt: skip
def test_templates_become_the_text_that_go_makes(template: str, text: str):
    dot = {
        "x": 1,
        "m": {"k": "v"},
        "empty": {},
        "s": 'a"b',
        "l": ["p", "q"],
        "no": False,
        "t": True,
        "t2": "x",
    }
    assert render(template, dot) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ if .x }}", "{{ end }}", "{{ else }}", "{{ range .l }}{{ end }}", "{{ include .x }}", "{{ .x",
        "{{ $y := .x }}", "{{ .m }}", "{{ .x.y }}", "{{ (eq .x 1) }}", "{{ .x 1 }}", '{{ printf "%d" .x }}',
    ],
)  # fmt: skip
def test_what_goes_beyond_our_part_is_refused(template: str):
    with pytest.raises(NotInOurPart):
        render(template, {"x": 1, "m": {}, "l": []})
