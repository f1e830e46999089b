"""A site that tries to get out of its episode in every way that pages know."""

from __future__ import annotations

from urllib.parse import quote

from turnwise.tasks.web.simulators.http import Request, Response

ELSEWHERE = "http://elsewhere.example/"
PAGES = {
    "/": f"""
        <a href="{ELSEWHERE}">out</a>
        <a href="https://elsewhere.example/">secure</a>
        <a href="javascript:document.title='run'">script</a>
        <a href="data:text/html,x">data</a>
        <a href="file:///etc/passwd">file</a>
        <a href="{ELSEWHERE}" target="_blank">blank</a>
        <a href="/inside" target="_blank">blank inside</a>
        <a href="/thing.txt" download>download</a>
        <button onclick="window.open('{ELSEWHERE}')">open</button>
        <button onclick="window.open('/inside')">open inside</button>
        <button onclick="location = '{ELSEWHERE}'">leave</button>
        <button onclick="location = 'https://elsewhere.example/'">leave secure</button>
        <button onclick="location = new URLSearchParams(location.search).get('to')">leave to</button>
        <button onclick="alert('Hello')">alert</button>
        <button onclick="document.title = confirm('Sure?')">confirm</button>
        <button onclick="document.querySelector('#late').remove()">remove</button>
        <button id="late">late</button>
        <button disabled>off</button>
        <input type="file" aria-label="upload">
        <input aria-label="word">
        <div style="position: relative"><button>under</button><div style="position: absolute; inset: 0"></div></div>
        <form method="post" action="{ELSEWHERE}take"><button>post out</button></form>
        <form method="get" action="{ELSEWHERE}take" target="_blank"><button>post out blank</button></form>""",
    "/refresh": f'<meta http-equiv="refresh" content="0; url={ELSEWHERE}"><p>Wait.</p>',
    "/inside": "<p>Inside.</p>",
    "/broken": "",
}


class Hostile:
    """Answers at ``trap.test``, and remembers the requests."""

    hosts = frozenset({"trap.test"})

    def __init__(self) -> None:
        self.cookies: dict[str, str] = {}
        self.asked: list[Request] = []

    def handle(self, request: Request) -> Response:
        """Answer a request."""
        self.asked.append(request)
        if request.path == "/broken":
            raise RuntimeError("a fault of the site")
        if request.path == "/away":
            return Response("", 303, ELSEWHERE)
        body = PAGES.get(request.path, "<p>Nothing.</p>")
        return Response(f"<!doctype html><title>{quote(request.path)}</title>{body}")
