package sqlite

// migrations are the steps that make the schema, in order: a database of schema n has had the first n. A step that was
// ever released is never changed.
func migrations() []string { return []string{schema1, schema2} }

const schema1 = `
-- Whose database it is. Made with the file.
CREATE TABLE store (
	id       INTEGER PRIMARY KEY CHECK (id = 1),
	audience TEXT NOT NULL CHECK (audience <> ''),
	created  INTEGER NOT NULL,
	probe    INTEGER NOT NULL
) STRICT;

-- The log of each tenant. Sealed events: canonical bytes.
CREATE TABLE events (
	number   INTEGER PRIMARY KEY,
	tenant   TEXT NOT NULL CHECK (tenant <> ''),
	sequence INTEGER NOT NULL CHECK (sequence > 0),
	at       INTEGER NOT NULL,
	body     BLOB NOT NULL,
	digest   BLOB NOT NULL CHECK (length(digest) = 32),
	UNIQUE (tenant, sequence)
) STRICT;
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'an event is final'); END;

-- Spent uses. The approval's end stands first in the index of uses, so that new keys come near its end and a million
-- of old ones cost nothing.
CREATE TABLE executions (
	number    INTEGER PRIMARY KEY,
	tenant    TEXT NOT NULL CHECK (tenant <> ''),
	id        TEXT NOT NULL CHECK (id <> ''),
	request   TEXT CHECK (request <> ''),
	process   TEXT NOT NULL CHECK (process <> ''),
	approval  BLOB NOT NULL CHECK (length(approval) = 32),
	step      TEXT NOT NULL CHECK (step <> ''),
	use       BLOB NOT NULL CHECK (length(use) = 32),
	started   INTEGER NOT NULL,
	expires   INTEGER NOT NULL,
	outcome   TEXT CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'indeterminate')),
	completed INTEGER,
	CHECK ((outcome IS NULL) = (completed IS NULL))
) STRICT;
CREATE UNIQUE INDEX executions_use ON executions (expires, approval, step);
CREATE UNIQUE INDEX executions_id ON executions (tenant, id);
CREATE INDEX executions_newest ON executions (tenant);
CREATE INDEX executions_running ON executions (process) WHERE outcome IS NULL;
CREATE TRIGGER executions_settle_once BEFORE UPDATE ON executions WHEN OLD.outcome IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'an execution is settled once'); END;

-- Policies are few and many executions name the same: each is kept once, by the SHA-256 of its bytes.
CREATE TABLE policies (
	sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32),
	body   BLOB NOT NULL
) STRICT;

-- What recovery and bundles need of an execution.
CREATE TABLE documents (
	number      INTEGER PRIMARY KEY REFERENCES executions (number),
	consumption BLOB NOT NULL,
	approval    BLOB,
	dry_run     BLOB,
	policy      BLOB REFERENCES policies (sha256),
	operation   BLOB
) STRICT;
CREATE TRIGGER documents_stay BEFORE UPDATE ON documents BEGIN SELECT RAISE(ABORT, 'documents are final'); END;

CREATE TABLE receipts (
	number INTEGER PRIMARY KEY REFERENCES executions (number),
	body   BLOB NOT NULL
) STRICT;
CREATE TRIGGER receipts_stay BEFORE UPDATE ON receipts BEGIN SELECT RAISE(ABORT, 'a receipt is final'); END;

CREATE TABLE counters (
	tenant TEXT NOT NULL CHECK (tenant <> ''),
	name   TEXT NOT NULL CHECK (name <> ''),
	value  INTEGER NOT NULL CHECK (value > 0),
	PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- Approval requests.
CREATE TABLE requests (
	number     INTEGER PRIMARY KEY,
	tenant     TEXT NOT NULL CHECK (tenant <> ''),
	id         TEXT NOT NULL CHECK (id <> ''),
	requester  TEXT NOT NULL,
	key        TEXT NOT NULL CHECK (key <> ''),
	state      TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'cancelled', 'void', 'spent')),
	answered   INTEGER NOT NULL DEFAULT 0 CHECK (answered IN (0, 1)),
	upstream   TEXT NOT NULL,
	tool       TEXT NOT NULL,
	effect     TEXT NOT NULL,
	details    BLOB,
	created    INTEGER NOT NULL,
	expires    INTEGER NOT NULL,
	decision   BLOB,
	decided_by TEXT NOT NULL DEFAULT '',
	decided    INTEGER NOT NULL DEFAULT 0,
	reason     TEXT NOT NULL DEFAULT '',
	cause      TEXT NOT NULL DEFAULT '',
	execution  TEXT NOT NULL DEFAULT '',
	outcome    TEXT NOT NULL DEFAULT '',
	answer     BLOB,
	delivered  INTEGER NOT NULL DEFAULT 0 CHECK (delivered IN (0, 1)),
	keep_until INTEGER NOT NULL DEFAULT 0,
	UNIQUE (tenant, id),
	CHECK ((state = 'spent') = (execution <> '')),
	CHECK (state = 'spent' OR (outcome = '' AND answer IS NULL AND delivered = 0)),
	CHECK (state NOT IN ('approved', 'spent', 'denied') OR (decision IS NOT NULL AND decided_by <> ''))
) STRICT;
CREATE INDEX requests_key ON requests (tenant, key);
CREATE INDEX requests_newest ON requests (tenant, state);
CREATE UNIQUE INDEX requests_open ON requests (tenant, key) WHERE state IN ('pending', 'approved');
CREATE INDEX requests_expiry ON requests (expires) WHERE state IN ('pending', 'approved');
CREATE INDEX requests_answers ON requests (keep_until) WHERE answer IS NOT NULL;

-- Callers that wait for a request, each in a process that can die.
CREATE TABLE waiters (
	tenant  TEXT NOT NULL,
	request TEXT NOT NULL,
	waiter  TEXT NOT NULL CHECK (waiter <> ''),
	process TEXT NOT NULL CHECK (process <> ''),
	PRIMARY KEY (tenant, request, waiter),
	FOREIGN KEY (tenant, request) REFERENCES requests (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX waiters_process ON waiters (process);

-- Upstreams as they were last seen, and what people said of them.
CREATE TABLE servers (
	tenant   TEXT NOT NULL CHECK (tenant <> ''),
	id       TEXT NOT NULL CHECK (id <> ''),
	name     TEXT NOT NULL,
	identity BLOB NOT NULL,
	tools    BLOB NOT NULL,
	pins     BLOB NOT NULL,
	classes  BLOB,
	decision BLOB,
	seen     INTEGER NOT NULL,
	PRIMARY KEY (tenant, id)
) STRICT;

-- Hashes of the console's sign-in codes and sessions.
CREATE TABLE secrets (
	kind    TEXT NOT NULL CHECK (kind <> ''),
	hash    TEXT NOT NULL CHECK (hash <> ''),
	expires INTEGER NOT NULL,
	PRIMARY KEY (kind, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX secrets_expiry ON secrets (expires);
`

const schema2 = `
-- What was revoked, by the decision that says so. A subject is a digest in its text form.
CREATE TABLE revocations (
	number   INTEGER PRIMARY KEY,
	tenant   TEXT NOT NULL CHECK (tenant <> ''),
	subject  TEXT NOT NULL CHECK (subject LIKE 'sha256:%'),
	decision BLOB NOT NULL CHECK (length(decision) > 0)
) STRICT;
CREATE INDEX revocations_subject ON revocations (tenant, subject);
CREATE TRIGGER revocations_stay BEFORE UPDATE ON revocations BEGIN SELECT RAISE(ABORT, 'a revocation is final'); END;
CREATE TRIGGER revocations_last BEFORE DELETE ON revocations BEGIN SELECT RAISE(ABORT, 'a revocation is final'); END;
`
