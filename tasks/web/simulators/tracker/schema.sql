CREATE TABLE tracker_projects (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, about TEXT, lead_id INTEGER);
CREATE TABLE tracker_members (id INTEGER PRIMARY KEY AUTOINCREMENT, project_id INTEGER, account_id INTEGER);
CREATE TABLE tracker_milestones (id INTEGER PRIMARY KEY AUTOINCREMENT, project_id INTEGER, name TEXT, due TEXT,
    closed_on TEXT);
CREATE TABLE tracker_issues (id INTEGER PRIMARY KEY AUTOINCREMENT, project_id INTEGER, title TEXT, text TEXT,
    status TEXT, priority TEXT, assignee_id INTEGER, milestone_id INTEGER, duplicate_of INTEGER,
    reporter_id INTEGER, created_at TEXT);
CREATE TABLE tracker_labels (id INTEGER PRIMARY KEY AUTOINCREMENT, issue_id INTEGER, label TEXT);
CREATE TABLE tracker_comments (id INTEGER PRIMARY KEY AUTOINCREMENT, issue_id INTEGER, account_id INTEGER,
    text TEXT, created_at TEXT);
CREATE TABLE tracker_watches (id INTEGER PRIMARY KEY AUTOINCREMENT, issue_id INTEGER, account_id INTEGER);
CREATE INDEX tracker_labels_by_issue ON tracker_labels (issue_id);
CREATE INDEX tracker_comments_by_issue ON tracker_comments (issue_id);
