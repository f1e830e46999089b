"""Queries about threads, posts and reports of the forum, and limits on their lengths."""

from __future__ import annotations

REASONS = ("spam", "insult", "wrong board", "advertising", "outdated")
"""Reasons for reporting a post."""
SORTS = {
    "newest": "created_at DESC",
    "replies": "replies DESC",
    "likes": "likes DESC",
    "title": "title",
}
"""Sort orders of threads."""
LONGEST_TITLE, LONGEST_TEXT = 80, 2000
"""Most characters of a title and of a post."""
THREADS = """SELECT forum_threads.*, forum_boards.name AS board, accounts.name AS author, counted.posts - 1 AS replies,
    counted.likes AS likes, iif(locked, 'locked', 'open') AS status FROM forum_threads
    JOIN forum_boards ON forum_boards.id = board_id JOIN accounts ON accounts.id = forum_threads.account_id
    JOIN (SELECT thread_id, count(*) AS posts, sum((SELECT count(*) FROM forum_likes WHERE post_id = forum_posts.id))
    AS likes FROM forum_posts GROUP BY thread_id) AS counted ON counted.thread_id = forum_threads.id"""
POSTS = """SELECT forum_posts.*, accounts.name AS author, title, board_id, locked,
    (SELECT count(*) FROM forum_likes WHERE post_id = forum_posts.id) AS likes,
    forum_posts.id = (SELECT min(id) FROM forum_posts AS one WHERE one.thread_id = forum_posts.thread_id) AS opening
    FROM forum_posts JOIN accounts ON accounts.id = forum_posts.account_id
    JOIN forum_threads ON forum_threads.id = thread_id"""
REPORTS = """SELECT forum_reports.*, accounts.name AS reporter, forum_boards.name AS board, moderator_id, text, title
    FROM forum_reports JOIN forum_posts ON forum_posts.id = post_id JOIN forum_threads ON forum_threads.id = thread_id
    JOIN forum_boards ON forum_boards.id = board_id JOIN accounts ON accounts.id = forum_reports.account_id"""
