"""``Files``: folders with documents and photos, a trash folder, and sharing."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from .....errors import ToolError
from ....rows.database import Row
from ..app import App, Body, Id, Maybe, Page, Words, call
from .form import NAME, THERE, ending, head, text, text_only, with_line

Type = Literal["txt", "md", "csv", "pdf", "jpg"]
Access = Literal["view", "edit"]


class Files(App):
    """The user's files. A locked file can be read, copied and shared, but not changed, moved or deleted."""

    name = "files"
    about = "folders with documents and photos: search, read, write, move, copy, trash, share"
    ids: ClassVar[dict[str, str]] = {"file_id": "files"}
    keys: ClassVar[dict[str, tuple[str, ...]]] = {"shares": ("file_id", "email"), "trash": ("file_id",)}
    stray = ("files_write", {"folder": "/Documents", "name": "nobody asked for this.txt", "content": ""})

    @call
    def list_folders(self) -> dict[str, int]:
        """List all folders with the number of files in each."""
        rows = self.db.rows(
            f"""SELECT path, count(files.id) AS n FROM folders LEFT JOIN files ON folder = path AND {THERE}
                GROUP BY path ORDER BY path"""
        )
        return {row["path"]: row["n"] for row in rows}

    @call
    def list_folder(self, folder: Words, page: Page = 1) -> dict[str, Any]:
        """List the files in a folder by name, not including its subfolders.

        Args:
            folder: path of the folder, such as /Documents.
            page: page of the results, starting at 1.
        """
        self._folder(folder)
        rows = self.db.rows(f"SELECT * FROM files WHERE folder = ? AND {THERE} ORDER BY name, id", folder)
        return self.paged([head(row) for row in rows], page)

    @call
    def search(
        self,
        name: Maybe = "",
        words: Maybe = "",
        type: Type | None = None,
        folder: Maybe = "",
        since: Maybe = "",
        until: Maybe = "",
        page: Page = 1,
    ) -> dict[str, Any]:
        """Search for files outside the trash, most recently changed first. A file must match every condition you give.

        Args:
            name: part of the file name.
            words: text to find in the file.
            type: file extension.
            folder: path of a folder; its subfolders are searched too.
            since: only files changed at this time or later, such as 2025-05-14T09:30.
            until: only files changed at this time or earlier.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            f"""SELECT * FROM files WHERE {THERE} AND (instr(lower(name), lower(?1)) OR ?1 = '')
                AND (instr(lower(content), lower(?2)) OR ?2 = '') AND (name LIKE '%.' || ?3 OR ?3 IS NULL)
                AND (folder = ?4 OR substr(folder, 1, length(?4) + 1) = ?4 || '/' OR ?4 = '')
                AND updated_at >= ?5 AND (updated_at <= ?6 OR ?6 = '') ORDER BY updated_at DESC, id DESC""",
            *(name, words, type, folder.rstrip("/"), since, until),
        )
        return self.paged([head(row) for row in rows], page)

    @call
    def details(self, file_id: Id) -> dict[str, Any]:
        """Show all details of a file except its content, including who it is shared with and who has locked it.

        Args:
            file_id: ID of the file, which may be in the trash.
        """
        row = self.find("files", file_id, "file")
        shares = self.db.rows("SELECT email, access FROM shares WHERE file_id = ? ORDER BY email", file_id)
        gone = self.db.row("SELECT id FROM trash WHERE file_id = ?", file_id) is not None
        rest = {"created_at": row["created_at"], "locked_by": row["locked_by"] or None, "in_trash": gone}
        return {**head(row), **rest, "shared_with": shares}

    @call
    def read(self, file_id: Id) -> dict[str, Any]:
        """Read a txt, md or csv file.

        Args:
            file_id: ID of the file.
        """
        row = self._there(file_id)
        text_only(row["name"])
        return {**head(row), "content": row["content"]}

    @call
    def write(self, folder: Words, name: Words, content: Body) -> dict[str, Any]:
        """Create a text file.

        Args:
            folder: path of an existing folder.
            name: file name ending in .txt, .md or .csv; no other file in the folder may have it.
            content: text of the file.
        """
        self._free(folder, name)
        text_only(name)
        return self._made(folder, name, **text(content))

    @call
    def append(self, file_id: Id, line: Words) -> dict[str, Any]:
        """Append a line to a text file.

        Args:
            file_id: ID of the file, which must not be locked.
            line: text of the line.
        """
        row = self._open(file_id)
        text_only(row["name"])
        if "\n" in line:
            raise ToolError("422 a line cannot contain line breaks: append the lines one by one")
        self._room(len(line.encode()) + 1)
        columns = text(with_line(row["content"], line))
        self.db.update("files", file_id, **columns, updated_at=self.stamp)
        return {"file_id": file_id, "size": columns["size"]}

    @call
    def move(self, file_id: Id, folder: Words | None = None, name: Words | None = None) -> dict[str, Any]:
        """Move a file to another folder, rename it, or both.

        Args:
            file_id: ID of the file, which must not be locked.
            folder: path of an existing folder; omit it to keep the current folder.
            name: new name with the same extension; omit it to keep the current name.
        """
        row = self._open(file_id)
        there = {"folder": folder or row["folder"], "name": name or row["name"]}
        if ending(there["name"]) != ending(row["name"]):
            raise ToolError(f"422 the name of file {file_id} must end in .{ending(row['name'])}")
        self._free(**there)
        self.db.update("files", file_id, **there)
        return {"file_id": file_id, **there}

    @call
    def copy(self, file_id: Id, folder: Words, name: Words | None = None) -> dict[str, Any]:
        """Copy a file. The copy is not shared with anyone.

        Args:
            file_id: ID of the file.
            folder: path of an existing folder for the copy.
            name: name of the copy, with the same extension; omit it to keep the name.
        """
        row = self._there(file_id)
        name = name or row["name"]
        if ending(name) != ending(row["name"]):
            raise ToolError(f"422 the name of the copy must end in .{ending(row['name'])}")
        self._free(folder, name)
        return self._made(folder, name, content=row["content"], size=row["size"])

    @call
    def delete(self, file_id: Id) -> dict[str, Any]:
        """Move a file to the trash, where it still takes up storage.

        Args:
            file_id: ID of the file, which must not be locked.
        """
        row = self._open(file_id)
        self.db.insert("trash", file_id=file_id, created_at=self.stamp)
        return {"file_id": file_id, "name": row["name"], "in_trash": True}

    @call
    def list_trash(self, page: Page = 1) -> dict[str, Any]:
        """List the files in the trash, most recently deleted first.

        Args:
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            """SELECT files.*, trash.created_at AS deleted_at FROM files JOIN trash ON file_id = files.id
               ORDER BY deleted_at DESC, files.id DESC"""
        )
        return self.paged([{**head(row), "deleted_at": row["deleted_at"]} for row in rows], page)

    @call
    def restore(self, file_id: Id) -> dict[str, Any]:
        """Restore a file from the trash to its folder.

        Args:
            file_id: ID of the file.
        """
        row = self.find("files", file_id, "file")
        gone = self.db.row("SELECT id FROM trash WHERE file_id = ?", file_id)
        if gone is None:
            raise ToolError(f"409 file {file_id} is not in the trash")
        self._free(row["folder"], row["name"])
        self.db.delete("trash", gone["id"])
        return {"file_id": file_id, "folder": row["folder"], "name": row["name"]}

    @call
    def share(self, file_id: Id, email: Words, access: Access = "view") -> dict[str, Any]:
        """Share a file with someone in the address book.

        Args:
            file_id: ID of the file.
            email: email address of someone in the address book.
            access: permission to view the file, or also to edit it.
        """
        self._there(file_id)
        email = email.lower()
        if not self.db.row("SELECT id FROM contacts WHERE email = ?", email):
            raise ToolError(f"404 no one in the address book has the address {email!r}")
        if self.db.row("SELECT id FROM shares WHERE file_id = ? AND email = ?", file_id, email):
            raise ToolError(f"409 file {file_id} is already shared with {email}")
        self.db.insert("shares", file_id=file_id, email=email, access=access)
        return {"file_id": file_id, "email": email, "access": access}

    @call
    def unshare(self, file_id: Id, email: Words) -> dict[str, Any]:
        """Stop sharing a file with someone.

        Args:
            file_id: ID of the file.
            email: email address to remove.
        """
        self._there(file_id)
        found = self.db.row("SELECT id FROM shares WHERE file_id = ? AND email = ?", file_id, email.lower())
        if found is None:
            raise ToolError(f"404 file {file_id} is not shared with {email!r}")
        self.db.delete("shares", found["id"])
        return {"file_id": file_id, "email": email.lower()}

    @call
    def list_shared(self, email: Maybe = "", page: Page = 1) -> dict[str, Any]:
        """List the shared files by name. Files in the trash are left out.

        Args:
            email: only files shared with this email address.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            f"""SELECT files.*, email, access FROM files JOIN shares ON file_id = files.id
                WHERE {THERE} AND (email = lower(?1) OR ?1 = '') ORDER BY name, files.id, email""",
            email,
        )
        return self.paged([{**head(row), "email": row["email"], "access": row["access"]} for row in rows], page)

    @call
    def storage(self) -> dict[str, int]:
        """Show the storage in bytes: the quota, the space in use (including the trash), and the free space."""
        quota, used = self.db.value("SELECT quota FROM storage"), self.db.value("SELECT sum(size) FROM files")
        return {"quota": quota, "used": used, "free": quota - used}

    def _made(self, folder: str, name: str, **columns: Any) -> dict[str, Any]:
        self._room(columns["size"])
        times = {"created_at": self.stamp, "updated_at": self.stamp}
        id = self.db.insert("files", folder=folder, name=name, **columns, locked_by="", **times)
        return {"file_id": id, "folder": folder, "name": name, "size": columns["size"]}

    def _there(self, id: int) -> Row:
        row = self.find("files", id, "file")
        if self.db.row("SELECT id FROM trash WHERE file_id = ?", id):
            raise ToolError(f"409 file {id} is in the trash")
        return row

    def _open(self, id: int) -> Row:
        row = self._there(id)
        if row["locked_by"]:
            raise ToolError(f"423 file {id} is locked by {row['locked_by']}")
        return row

    def _folder(self, path: str) -> None:
        if not self.db.row("SELECT id FROM folders WHERE path = ?", path):
            raise ToolError(f"404 folder {path!r} does not exist: files_list_folders lists all folders")

    def _free(self, folder: str, name: str) -> None:
        self._folder(folder)
        if not NAME.fullmatch(name):
            raise ToolError(f"422 {name!r} is not a valid file name such as letter.txt")
        taken = f"SELECT id FROM files WHERE folder = ? AND lower(name) = lower(?) AND {THERE}"
        if self.db.row(taken, folder, name):
            raise ToolError(f"409 a file named {name!r} already exists in {folder}")

    def _room(self, size: int) -> None:
        free = self.storage()["free"]
        if size > free:
            raise ToolError(f"507 not enough storage: {free} bytes are free, {size} are needed")
