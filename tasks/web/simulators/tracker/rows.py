"""Queries about issues, milestones and comments of the tracker, and limits on their lengths."""

from __future__ import annotations

PRIORITIES = ("low", "normal", "high", "urgent")
LABELS = ("bug", "design", "documents", "feature", "performance", "security")
SORTS = {
    "newest": "created_at DESC, id DESC",
    "oldest": "created_at, id",
    "priority": "CASE priority WHEN 'urgent' THEN 0 WHEN 'high' THEN 1 WHEN 'normal' THEN 2 ELSE 3 END, id",
    "title": "title, id",
}
"""Sort orders of issues."""
LONGEST_TITLE, LONGEST_TEXT = 100, 2000
"""Most characters of a title and of a text."""
ISSUES = """SELECT tracker_issues.*, tracker_projects.name AS project, coalesce(worker.name, 'unassigned') AS assignee,
    finder.name AS reporter, coalesce(tracker_milestones.name, 'none') AS milestone,
    coalesce((SELECT group_concat(label, ', ') FROM (SELECT label FROM tracker_labels WHERE issue_id =
    tracker_issues.id ORDER BY label)), '') AS labels FROM tracker_issues
    JOIN tracker_projects ON tracker_projects.id = tracker_issues.project_id
    JOIN accounts AS finder ON finder.id = reporter_id LEFT JOIN accounts AS worker ON worker.id = assignee_id
    LEFT JOIN tracker_milestones ON tracker_milestones.id = milestone_id"""
MILESTONES = """SELECT tracker_milestones.*, iif(closed_on = '', 'open', 'closed') AS status,
    (SELECT count(*) FROM tracker_issues WHERE milestone_id = tracker_milestones.id AND status = 'open') AS issues
    FROM tracker_milestones"""
COMMENTS = """SELECT tracker_comments.*, accounts.name AS author FROM tracker_comments
    JOIN accounts ON accounts.id = account_id"""
TEAM = """SELECT accounts.id, name FROM accounts JOIN tracker_members ON account_id = accounts.id
    WHERE project_id = ? ORDER BY name, accounts.id"""
