package sqlite

// migrations are the steps that make the schema, in order: a database of schema n has had the first n. A step that was
// ever released is never changed.
func migrations() []string { return []string{schema1} }

// A place names an event in the whole database: the number of its tenant's log, shifted, and its sequence there. Rows that
// are keyed by places lie tenant by tenant, oldest first.
const sequenceBits = 40

func place(log, sequence int64) int64 { return log<<sequenceBits | sequence }

func sequence(place int64) int64 { return place & (1<<sequenceBits - 1) }

const schema1 = `
-- Whose database it is. Made with the file.
CREATE TABLE store (
	id       INTEGER PRIMARY KEY CHECK (id = 1),
	audience TEXT NOT NULL CHECK (audience <> ''),
	created  INTEGER NOT NULL,
	probe    INTEGER NOT NULL
) STRICT;

-- The log of each tenant: its newest checkpoint (published is 0 while there is none), and up to where bodies were dropped.
CREATE TABLE logs (
	number    INTEGER PRIMARY KEY CHECK (number > 0 AND number < 1 << 22),
	tenant    TEXT NOT NULL UNIQUE CHECK (tenant <> ''),
	published INTEGER NOT NULL DEFAULT 0,
	root      BLOB CHECK (length(root) = 32),
	note      BLOB,
	retired   INTEGER NOT NULL DEFAULT 0,
	CHECK ((published = 0) = (root IS NULL) AND (published = 0) = (note IS NULL) AND retired BETWEEN 0 AND published)
) STRICT;
CREATE TRIGGER logs_grow BEFORE UPDATE ON logs
	WHEN NEW.number <> OLD.number OR NEW.tenant <> OLD.tenant OR NEW.published < OLD.published OR NEW.retired < OLD.retired
	OR (NEW.published = OLD.published AND NEW.root IS NOT OLD.root)
BEGIN SELECT RAISE(ABORT, 'a log only grows'); END;
CREATE TRIGGER logs_last BEFORE DELETE ON logs BEGIN SELECT RAISE(ABORT, 'a log is final'); END;

-- Sealed events: canonical bytes, which retention may drop, and the hash of their leaf, which stays. The place is
-- log * 2^40 + sequence.
CREATE TABLE events (
	place INTEGER PRIMARY KEY CHECK (place & 0xffffffffff > 0),
	at    INTEGER NOT NULL,
	phase TEXT NOT NULL CHECK (phase <> ''),
	about TEXT NOT NULL CHECK (about <> ''),
	leaf  BLOB NOT NULL CHECK (length(leaf) = 32),
	body  BLOB CHECK (length(body) > 0)
) STRICT;
-- Those of executions are found over the executions.
CREATE INDEX events_about ON events (about, phase) WHERE phase NOT IN ('started', 'completed');
CREATE TRIGGER events_stay BEFORE UPDATE ON events
	WHEN NEW.body IS NOT NULL OR NEW.place <> OLD.place OR NEW.at <> OLD.at OR NEW.phase <> OLD.phase OR NEW.about <> OLD.about
	OR NEW.leaf <> OLD.leaf
BEGIN SELECT RAISE(ABORT, 'an event is final'); END;
CREATE TRIGGER events_last BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'an event is final'); END;

-- Hashes of complete subtrees of the logs.
CREATE TABLE tiles (
	log    INTEGER NOT NULL REFERENCES logs (number),
	level  INTEGER NOT NULL CHECK (level >= 0),
	idx    INTEGER NOT NULL CHECK (idx >= 0),
	hashes BLOB NOT NULL CHECK (length(hashes) BETWEEN 32 AND 8192 AND length(hashes) % 32 = 0),
	PRIMARY KEY (log, level, idx)
) STRICT, WITHOUT ROWID;

-- Spent uses, each with the ledger's signed record. The number is the place of the started event, settled that of the completed one. The approval's end stands
-- first in the index of uses, so that new keys come near its end and a million of old ones cost nothing. Half of the
-- approval's digest keeps it small: of two approvals that shared it, the second would be refused.
CREATE TABLE executions (
	number      INTEGER PRIMARY KEY,
	tenant      TEXT NOT NULL CHECK (tenant <> ''),
	id          TEXT NOT NULL CHECK (id <> ''),
	request     TEXT CHECK (request <> ''),
	process     TEXT NOT NULL CHECK (process <> ''),
	approval    BLOB NOT NULL CHECK (length(approval) = 32),
	step        TEXT NOT NULL CHECK (step <> ''),
	use         BLOB NOT NULL CHECK (length(use) = 32),
	started     INTEGER NOT NULL,
	expires     INTEGER NOT NULL,
	outcome     TEXT CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'indeterminate')),
	completed   INTEGER,
	settled     INTEGER CHECK (settled > number),
	receipt     BLOB CHECK (length(receipt) = 32),
	consumption BLOB NOT NULL CHECK (length(consumption) > 0),
	CHECK ((outcome IS NULL) = (completed IS NULL) AND (outcome IS NULL) = (settled IS NULL) AND (outcome IS NULL) = (receipt IS NULL))
) STRICT;
CREATE UNIQUE INDEX executions_use ON executions (expires, substr(approval, 1, 16), step);
CREATE UNIQUE INDEX executions_id ON executions (tenant, id);
CREATE INDEX executions_running ON executions (process) WHERE outcome IS NULL;
CREATE TRIGGER executions_settle_once BEFORE UPDATE ON executions WHEN OLD.outcome IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'an execution is settled once'); END;
CREATE TRIGGER executions_last BEFORE DELETE ON executions BEGIN SELECT RAISE(ABORT, 'a use is final'); END;

-- Policies are few and many executions name the same: each is kept once, by the SHA-256 of its bytes.
CREATE TABLE policies (
	sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32),
	body   BLOB NOT NULL
) STRICT;

-- What recovery and bundles need of an execution.
CREATE TABLE documents (
	number    INTEGER PRIMARY KEY REFERENCES executions (number),
	approval  BLOB,
	dry_run   BLOB,
	policy    BLOB REFERENCES policies (sha256),
	operation BLOB
) STRICT;
-- What is sealed may be sealed again under another key.
CREATE TRIGGER documents_stay BEFORE UPDATE ON documents
	WHEN NEW.number <> OLD.number OR NEW.approval IS NOT OLD.approval OR NEW.dry_run IS NOT OLD.dry_run OR NEW.policy IS NOT OLD.policy
	OR (NEW.operation IS NOT OLD.operation AND (OLD.operation IS NULL OR substr(NEW.operation, 1, 4) IS NOT x'6366312e'))
BEGIN SELECT RAISE(ABORT, 'documents are final'); END;

CREATE TABLE receipts (
	number INTEGER PRIMARY KEY REFERENCES executions (number),
	body   BLOB NOT NULL
) STRICT;
CREATE TRIGGER receipts_stay BEFORE UPDATE ON receipts BEGIN SELECT RAISE(ABORT, 'a receipt is final'); END;

-- Receipts that came after the first: each is an event, once.
CREATE TABLE late (
	number  INTEGER NOT NULL REFERENCES executions (number),
	receipt BLOB NOT NULL CHECK (length(receipt) = 32),
	PRIMARY KEY (number, receipt)
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
	tenant TEXT NOT NULL CHECK (tenant <> ''),
	name   TEXT NOT NULL CHECK (name <> ''),
	value  INTEGER NOT NULL CHECK (value >= 0),
	PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE marks (
	tenant TEXT NOT NULL CHECK (tenant <> ''),
	name   TEXT NOT NULL CHECK (name <> ''),
	value  INTEGER NOT NULL CHECK (value > 0),
	PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER marks_rise BEFORE UPDATE ON marks WHEN NEW.value <= OLD.value
BEGIN SELECT RAISE(ABORT, 'a mark only rises'); END;

-- Keys that were taken.
CREATE TABLE once (
	tenant TEXT NOT NULL CHECK (tenant <> ''),
	key    TEXT NOT NULL CHECK (key <> ''),
	until  INTEGER NOT NULL,
	PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX once_until ON once (tenant, until);

-- What was revoked, by the decision that says so.
CREATE TABLE revocations (
	number   INTEGER PRIMARY KEY,
	tenant   TEXT NOT NULL CHECK (tenant <> ''),
	subject  BLOB NOT NULL CHECK (length(subject) = 32),
	decision BLOB NOT NULL CHECK (length(decision) > 0)
) STRICT;
CREATE INDEX revocations_subject ON revocations (tenant, subject);
CREATE TRIGGER revocations_stay BEFORE UPDATE ON revocations BEGIN SELECT RAISE(ABORT, 'a revocation is final'); END;
CREATE TRIGGER revocations_last BEFORE DELETE ON revocations BEGIN SELECT RAISE(ABORT, 'a revocation is final'); END;

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

-- The tenants of a server. The epoch of each is its mark.
CREATE TABLE tenants (
	id      TEXT PRIMARY KEY CHECK (id <> ''),
	created INTEGER NOT NULL,
	body    BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Credentials that were ended before their time, until nothing of them could be valid anyway: one, or all that a subject had
-- been issued.
CREATE TABLE revoked_credentials (
	tenant TEXT NOT NULL CHECK (tenant <> ''),
	kind   TEXT NOT NULL CHECK (kind IN ('credential', 'subject')),
	name   TEXT NOT NULL CHECK (name <> ''),
	at     INTEGER NOT NULL,
	until  INTEGER NOT NULL CHECK (until > at),
	PRIMARY KEY (tenant, kind, name)
) STRICT, WITHOUT ROWID;

-- What was used of rates, until it is out of every window.
CREATE TABLE rates (
	tenant    TEXT NOT NULL CHECK (tenant <> ''),
	principal TEXT NOT NULL CHECK (principal <> ''),
	kind      TEXT NOT NULL CHECK (kind IN ('request', 'read', 'write')),
	tool      TEXT NOT NULL CHECK ((tool = '') = (kind = 'request')),
	until     INTEGER NOT NULL,
	state     BLOB NOT NULL CHECK (length(state) > 0),
	PRIMARY KEY (tenant, principal, kind, tool)
) STRICT, WITHOUT ROWID;

-- API keys, by the SHA-256 of their texts. Lists of names are one a line. An end of 0 is none.
CREATE TABLE api_keys (
	tenant     TEXT NOT NULL CHECK (tenant <> ''),
	id         TEXT NOT NULL CHECK (id <> ''),
	hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
	subject    TEXT NOT NULL CHECK (subject <> ''),
	kind       TEXT NOT NULL CHECK (kind IN ('agent', 'person', 'service')),
	owner      TEXT NOT NULL CHECK (owner <> '' AND (kind <> 'person' OR owner = subject)),
	scopes     TEXT NOT NULL,
	label      TEXT NOT NULL,
	created    INTEGER NOT NULL,
	created_by TEXT NOT NULL CHECK (created_by <> ''),
	expires    INTEGER NOT NULL CHECK (expires >= 0),
	last_used  INTEGER NOT NULL DEFAULT 0,
	successor  TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_keys_expiry ON api_keys (expires) WHERE expires > 0;

-- Whose the names are that keys speak under, for good: nobody else inherits what was granted to one.
CREATE TABLE key_subjects (
	tenant  TEXT NOT NULL CHECK (tenant <> ''),
	kind    TEXT NOT NULL CHECK (kind <> ''),
	subject TEXT NOT NULL CHECK (subject <> ''),
	owner   TEXT NOT NULL CHECK (owner <> ''),
	PRIMARY KEY (tenant, kind, subject)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER key_subjects_stay BEFORE UPDATE ON key_subjects BEGIN SELECT RAISE(ABORT, 'a name has one owner'); END;
CREATE TRIGGER key_subjects_last BEFORE DELETE ON key_subjects BEGIN SELECT RAISE(ABORT, 'a name has one owner'); END;

-- People with passwords, which are hashed with Argon2id.
CREATE TABLE users (
	tenant   TEXT NOT NULL CHECK (tenant <> ''),
	name     TEXT NOT NULL CHECK (name <> ''),
	password TEXT NOT NULL CHECK (password LIKE '$argon2id$%'),
	scopes   TEXT NOT NULL,
	groups   TEXT NOT NULL,
	disabled INTEGER NOT NULL CHECK (disabled IN (0, 1)),
	created  INTEGER NOT NULL,
	changed  INTEGER NOT NULL,
	version  INTEGER NOT NULL CHECK (version > 0),
	PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER users_last BEFORE DELETE ON users BEGIN SELECT RAISE(ABORT, 'the name of a user is not given away'); END;

-- Lines of refresh credentials, each with the SHA-256 of the only one that is good.
CREATE TABLE refresh_families (
	id      BLOB PRIMARY KEY CHECK (length(id) = 32),
	tenant  TEXT NOT NULL CHECK (tenant <> ''),
	name    TEXT NOT NULL CHECK (name <> ''),
	newest  BLOB NOT NULL CHECK (length(newest) = 32),
	created INTEGER NOT NULL,
	expires INTEGER NOT NULL CHECK (expires > created),
	issued  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX refresh_families_user ON refresh_families (tenant, name, created);
CREATE INDEX refresh_families_expiry ON refresh_families (expires);

-- How many logins failed. The key is a digest of the tenant and the user, the address, or all three: an address is no tenant's.
CREATE TABLE login_tallies (
	key      BLOB PRIMARY KEY CHECK (length(key) = 32),
	failures INTEGER NOT NULL CHECK (failures >= 0),
	last     INTEGER NOT NULL,
	until    INTEGER NOT NULL,
	known    INTEGER NOT NULL,
	forget   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX login_tallies_forget ON login_tallies (forget);

-- The credential of a server that has no tenants yet.
CREATE TABLE bootstrap (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	hash    BLOB NOT NULL CHECK (length(hash) = 32),
	expires INTEGER NOT NULL
) STRICT;

-- The names of tenants' secrets, with the highest version that each ever had: it stays when the versions are deleted, so that
-- none comes twice.
CREATE TABLE vault_names (
	tenant TEXT NOT NULL CHECK (tenant <> ''),
	name   TEXT NOT NULL CHECK (name <> ''),
	last   INTEGER NOT NULL CHECK (last > 0),
	PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER vault_names_rise BEFORE UPDATE ON vault_names WHEN NEW.last <= OLD.last
BEGIN SELECT RAISE(ABORT, 'a version comes once'); END;
CREATE TRIGGER vault_names_last BEFORE DELETE ON vault_names BEGIN SELECT RAISE(ABORT, 'a version comes once'); END;

-- Their versions, sealed.
CREATE TABLE vault_values (
	number   INTEGER PRIMARY KEY,
	tenant   TEXT NOT NULL,
	name     TEXT NOT NULL,
	version  INTEGER NOT NULL CHECK (version > 0),
	created  INTEGER NOT NULL,
	value    BLOB NOT NULL CHECK (length(value) > 0),
	metadata BLOB NOT NULL CHECK (length(metadata) > 0),
	UNIQUE (tenant, name, version),
	FOREIGN KEY (tenant, name) REFERENCES vault_names (tenant, name)
) STRICT;

-- The keys that values were sealed under, each with one that proves it.
CREATE TABLE vault_keys (
	number  INTEGER PRIMARY KEY,
	id      TEXT NOT NULL UNIQUE CHECK (id <> ''),
	proof   BLOB NOT NULL CHECK (length(proof) > 0),
	created INTEGER NOT NULL
) STRICT;

-- What is asked, or told, about requests and calls. Body and secret are sealed or opaque here.
CREATE TABLE hooks (
	number  INTEGER PRIMARY KEY,
	tenant  TEXT NOT NULL CHECK (tenant <> ''),
	id      TEXT NOT NULL CHECK (id <> ''),
	phase   TEXT NOT NULL CHECK (phase IN ('pre-request', 'post-request', 'pre-call', 'post-call')),
	version INTEGER NOT NULL CHECK (version > 0),
	body    BLOB NOT NULL CHECK (length(body) > 0),
	secret  BLOB CHECK (length(secret) > 0),
	UNIQUE (tenant, id)
) STRICT;

-- What callers repeat under a key of theirs. The answer is sealed.
CREATE TABLE idempotency (
	number    INTEGER PRIMARY KEY,
	tenant    TEXT NOT NULL CHECK (tenant <> ''),
	id        TEXT NOT NULL CHECK (id <> ''),
	principal TEXT NOT NULL CHECK (principal <> ''),
	body      BLOB NOT NULL CHECK (length(body) = 32),
	running   INTEGER NOT NULL CHECK (running IN (0, 1)),
	answer    BLOB CHECK (length(answer) > 0),
	until     INTEGER NOT NULL,
	CHECK (running = 0 OR answer IS NULL),
	UNIQUE (tenant, id)
) STRICT;
CREATE INDEX idempotency_expiry ON idempotency (tenant, principal, until);

-- Hashes of the console's sign-in codes and sessions.
CREATE TABLE secrets (
	kind    TEXT NOT NULL CHECK (kind <> ''),
	hash    TEXT NOT NULL CHECK (hash <> ''),
	expires INTEGER NOT NULL,
	PRIMARY KEY (kind, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX secrets_expiry ON secrets (expires);
`
