"""``Mail``: messages in folders, with labels."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from .....errors import ToolError
from ....rows.database import Row
from ..app import App, Body, Id, Maybe, Page, Words, address, call, day, moment

Folder = Literal["inbox", "sent", "archive", "trash", "drafts"]
To = Annotated[list[Words], pydantic.Field(min_length=1, max_length=20)]


class Mail(App):
    """The user's mailbox."""

    name = "mail"
    about = "email: folders, search, send, reply, forward, labels"
    ids: ClassVar[dict[str, str]] = {"message_id": "messages"}
    idle: ClassVar[dict[str, frozenset[str]]] = {"messages": frozenset({"unread"})}
    keys: ClassVar[dict[str, tuple[str, ...]]] = {"labels": ("message_id", "label")}
    stray = ("mail_save_draft", {"to": ["nobody@post.test"], "subject": "note to self", "body": "x"})

    @call
    def list_folder(self, folder: Folder = "inbox", unread_only: bool = False, page: Page = 1) -> dict[str, Any]:
        """List the messages in a folder, newest first, without their text.

        Args:
            folder: name of the folder.
            unread_only: whether to leave out messages that have been read.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            "SELECT * FROM messages WHERE folder = ? AND unread >= ? ORDER BY sent_at DESC, id DESC",
            folder,
            unread_only,
        )
        return self.paged([_head(row) for row in rows], page)

    @call
    def search(
        self,
        words: Maybe = "",
        sender: Maybe = "",
        recipient: Maybe = "",
        folder: Folder | None = None,
        label: Maybe = "",
        unread: bool | None = None,
        starred: bool | None = None,
        since: Maybe = "",
        until: Maybe = "",
        page: Page = 1,
    ) -> dict[str, Any]:
        """Search for messages, newest first. A message must match every condition you give.

        Args:
            words: text to find in the subject or the body.
            sender: part of the sender's address.
            recipient: part of a recipient's address.
            folder: folder to search; omit it to search everything except the trash.
            label: only messages with this label.
            unread: true for unread messages only, false for read messages only.
            starred: true for starred messages only, false for messages without a star.
            since: only messages sent at this day or time or later, such as 2025-05-14 or 2025-05-14T09:30.
            until: only messages sent at this day or time or earlier.
            page: page of the results, starting at 1.
        """
        begin, end = _when(since, "since", ""), _when(until, "until", "T23:59")
        rows = self.db.rows(
            """SELECT * FROM messages WHERE (folder = ?1 OR ?1 IS NULL AND folder != 'trash')
               AND (instr(lower(subject), lower(?2)) OR instr(lower(body), lower(?2)) OR ?2 = '')
               AND (instr(sender, lower(?3)) OR ?3 = '') AND (instr(recipients, lower(?4)) OR ?4 = '')
               AND (EXISTS (SELECT 1 FROM labels WHERE message_id = messages.id AND labels.label = ?5) OR ?5 = '')
               AND (unread = ?6 OR ?6 IS NULL) AND (starred = ?7 OR ?7 IS NULL)
               AND sent_at >= ?8 AND (sent_at <= ?9 AND sent_at != '' OR ?9 = '')
               ORDER BY sent_at DESC, id DESC""",
            folder,
            words,
            sender,
            recipient,
            label,
            unread,
            starred,
            begin,
            end,
        )
        return self.paged([_head(row) for row in rows], page)

    @call
    def read(self, message_id: Id) -> dict[str, Any]:
        """Read a message: show its text and labels and mark it as read.

        Args:
            message_id: ID of the message.
        """
        row = self.find("messages", message_id, "message")
        if row["unread"]:
            self.db.update("messages", message_id, unread=0)
        labels = self.db.rows("SELECT label FROM labels WHERE message_id = ? ORDER BY label", message_id)
        return {**_head(row), "unread": False, "body": row["body"], "labels": [found["label"] for found in labels]}

    @call
    def send(self, to: To, subject: Words, body: Body) -> dict[str, Any]:
        """Send a message.

        Args:
            to: email addresses of the recipients.
            subject: subject line.
            body: text of the message.
        """
        return self._written("sent", to, subject, body)

    @call
    def save_draft(self, to: To, subject: Words, body: Body) -> dict[str, Any]:
        """Save a message as a draft without sending it.

        Args:
            to: email addresses of the recipients.
            subject: subject line.
            body: text of the message.
        """
        return self._written("drafts", to, subject, body)

    @call
    def send_draft(self, message_id: Id) -> dict[str, Any]:
        """Send a draft unchanged.

        Args:
            message_id: ID of the draft.
        """
        row = self.find("messages", message_id, "message")
        if row["folder"] != "drafts":
            raise ToolError(f"409 message {message_id} is not a draft: it is in {row['folder']}")
        self.db.update("messages", message_id, folder="sent", sent_at=self.stamp)
        return {"message_id": message_id}

    @call
    def reply(self, message_id: Id, body: Body) -> dict[str, Any]:
        """Reply to the sender of a message. A reply to the user's own message goes to its recipients.

        Args:
            message_id: ID of the message to reply to.
            body: text of the message.
        """
        row = self._sent(message_id)
        subject = row["subject"] if row["subject"].startswith("Re: ") else f"Re: {row['subject']}"
        to = json.loads(row["recipients"]) if row["sender"] == self._me else [row["sender"]]
        return self._written("sent", to, subject, body, reply_to=message_id)

    @call
    def forward(self, message_id: Id, to: To, note: Body = "") -> dict[str, Any]:
        """Forward a message.

        Args:
            message_id: ID of the message.
            to: email addresses of the recipients.
            note: text to put above the forwarded message.
        """
        row = self._sent(message_id)
        body = "\n\n".join(filter(None, (note, row["body"])))
        return self._written("sent", to, f"Fwd: {row['subject']}", body, forward_of=message_id)

    @call
    def move(self, message_id: Id, folder: Literal["inbox", "archive", "trash"]) -> dict[str, Any]:
        """Move a message to another folder. A draft can only be moved to the trash.

        Args:
            message_id: ID of the message.
            folder: folder to move it to.
        """
        row = self.find("messages", message_id, "message")
        if row["folder"] == folder:
            raise ToolError(f"409 message {message_id} is already in {folder}")
        if folder != "trash":
            self._sent(message_id)
        self.db.update("messages", message_id, folder=folder)
        return {"message_id": message_id, "folder": folder}

    @call
    def delete(self, message_id: Id) -> str:
        """Delete a message in the trash permanently.

        Args:
            message_id: ID of the message, which must be in the trash.
        """
        if self.find("messages", message_id, "message")["folder"] != "trash":
            raise ToolError(f"409 message {message_id} is not in the trash: move it there first")
        for row in self.db.rows("SELECT id FROM labels WHERE message_id = ?", message_id):
            self.db.delete("labels", row["id"])
        self.db.delete("messages", message_id)
        return f"deleted message {message_id}"

    @call
    def mark(self, message_id: Id, unread: bool | None = None, starred: bool | None = None) -> dict[str, Any]:
        """Mark a message as read or unread, and add or remove its star.

        Args:
            message_id: ID of the message.
            unread: true to mark it as unread, false to mark it as read.
            starred: true to add a star, false to remove it.
        """
        self.find("messages", message_id, "message")
        marks = {name: int(value) for name, value in (("unread", unread), ("starred", starred)) if value is not None}
        if not marks:
            raise ToolError("422 specify unread, starred or both")
        self.db.update("messages", message_id, **marks)
        return {"message_id": message_id, **{name: bool(value) for name, value in marks.items()}}

    @call
    def label(self, message_id: Id, label: Words) -> dict[str, Any]:
        """Add a label to a message.

        Args:
            message_id: ID of the message.
            label: text of the label.
        """
        self.find("messages", message_id, "message")
        if self.db.row("SELECT id FROM labels WHERE message_id = ? AND label = ?", message_id, label):
            raise ToolError(f"409 message {message_id} already has the label {label!r}")
        self.db.insert("labels", message_id=message_id, label=label)
        return {"message_id": message_id, "label": label}

    @call
    def unlabel(self, message_id: Id, label: Words) -> dict[str, Any]:
        """Remove a label from a message.

        Args:
            message_id: ID of the message.
            label: text of the label.
        """
        found = self.db.row("SELECT id FROM labels WHERE message_id = ? AND label = ?", message_id, label)
        if found is None:
            raise ToolError(f"404 message {message_id} does not have the label {label!r}")
        self.db.delete("labels", found["id"])
        return {"message_id": message_id, "label": label}

    def _written(self, folder: str, to: list[str], subject: str, body: str, **link: int) -> dict[str, Any]:
        recipients = addresses(address(one) for one in to)
        columns = {"folder": folder, "sender": self._me, "recipients": recipients, "subject": subject, "body": body}
        times = {"sent_at": self.stamp if folder == "sent" else "", "created_at": self.stamp}
        id = self.db.insert("messages", **columns, **times, unread=0, starred=0, **link)
        return {"message_id": id, "to": json.loads(recipients), "subject": subject}

    def _sent(self, message_id: int) -> Row:
        row = self.find("messages", message_id, "message")
        if not row["sent_at"]:
            raise ToolError(f"409 message {message_id} is a draft that has not been sent")
        return row

    @property
    def _me(self) -> str:
        return str(self.db.value("SELECT email FROM profile"))


def addresses(to: Any) -> str:
    """Return recipients as the table stores them: sorted, without duplicates, as JSON."""
    return json.dumps(sorted({one.lower() for one in to}))


def _when(text: str, what: str, rest: str) -> str:
    """Return a point in time, completing a date with ``rest``; empty text stays empty."""
    return text and (moment(text, what) if "T" in text else day(text, what) + rest)


def _head(row: Row) -> dict[str, Any]:
    return {
        "message_id": row["id"],
        "folder": row["folder"],
        "from": row["sender"],
        "to": json.loads(row["recipients"]),
        "subject": row["subject"],
        "sent_at": row["sent_at"],
        "unread": bool(row["unread"]),
        "starred": bool(row["starred"]),
    }
