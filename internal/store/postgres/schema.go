package postgres

// migrations are the steps that make the schema, in order: a database of schema n has had the first n. A step that was
// ever released is never changed. The numbers are those of the embedded store.
//
// Names are compared by their bytes (COLLATE "C"), so that no upgrade of the server's collations can break an index. Times
// are milliseconds since 1970, 0 for none: no session setting changes how they are read. Documents are bytes. The tables
// that every commit writes have no foreign keys: what they would check is checked under the lock of the tenant's log.
func migrations() []string { return []string{schema1} }

const schema1 = `
-- Whose database it is.
CREATE TABLE store (
	id       int    PRIMARY KEY CHECK (id = 1),
	schema   int    NOT NULL CHECK (schema > 0),
	audience text   COLLATE "C" NOT NULL CHECK (audience <> ''),
	created  bigint NOT NULL,
	probe    bigint NOT NULL
);

-- The head of each tenant's log. The lock on this row is the lock of all that the tenant has: whoever appends holds it.
CREATE TABLE logs (
	tenant   text   COLLATE "C" PRIMARY KEY CHECK (tenant <> ''),
	sequence bigint NOT NULL DEFAULT 0 CHECK (sequence >= 0),
	at       bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Sealed events: canonical bytes, with their RFC 6962 leaf hashes. A body is dropped by retention, a hash never.
CREATE TABLE events (
	tenant    text   COLLATE "C" NOT NULL,
	sequence  bigint NOT NULL CHECK (sequence > 0),
	at        bigint NOT NULL,
	leaf      bytea  NOT NULL CHECK (octet_length(leaf) = 32),
	phase     text   COLLATE "C" NOT NULL,
	execution text   COLLATE "C" NOT NULL,
	body      bytea,
	PRIMARY KEY (tenant, sequence)
) WITH (toast_tuple_target = 8160);
ALTER TABLE events ALTER body SET STORAGE EXTERNAL;
CREATE INDEX events_about ON events (tenant, execution);

-- The newest checkpoint of each log, and how far retention has come.
CREATE TABLE checkpoints (
	tenant  text   COLLATE "C" PRIMARY KEY CHECK (tenant <> ''),
	size    bigint NOT NULL DEFAULT 0 CHECK (size >= 0),
	root    bytea  CHECK (octet_length(root) = 32),
	note    bytea,
	retired bigint NOT NULL DEFAULT 0
);

CREATE TABLE tiles (
	tenant text   COLLATE "C" NOT NULL,
	level  int    NOT NULL CHECK (level >= 0),
	index  bigint NOT NULL CHECK (index >= 0),
	hashes bytea  NOT NULL CHECK (octet_length(hashes) % 32 = 0 AND octet_length(hashes) BETWEEN 32 AND 8192),
	PRIMARY KEY (tenant, level, index)
);
ALTER TABLE tiles ALTER hashes SET STORAGE EXTERNAL;

-- Spent uses; sequence is that of the started event. The approval's end stands first in the index of uses, so that new keys
-- come near its end and a million of old ones cost nothing. A row never changes but that retention takes its documents,
-- and that what is sealed is sealed again under another key.
CREATE TABLE executions (
	tenant      text   COLLATE "C" NOT NULL,
	sequence    bigint NOT NULL,
	id          text   COLLATE "C" NOT NULL CHECK (id <> ''),
	request     text   COLLATE "C" NOT NULL,
	process     text   COLLATE "C" NOT NULL CHECK (process <> ''),
	approval    bytea  NOT NULL CHECK (octet_length(approval) = 32),
	step        text   COLLATE "C" NOT NULL CHECK (step <> ''),
	use         bytea  NOT NULL CHECK (octet_length(use) = 32),
	started     bigint NOT NULL,
	expires     bigint NOT NULL,
	policy      bytea  CHECK (octet_length(policy) = 32),
	consumption bytea  NOT NULL,
	approved    bytea,
	dry_run     bytea,
	operation   bytea,
	PRIMARY KEY (tenant, sequence)
) WITH (toast_tuple_target = 8160);
ALTER TABLE executions ALTER consumption SET STORAGE EXTERNAL, ALTER approved SET STORAGE EXTERNAL,
	ALTER dry_run SET STORAGE EXTERNAL, ALTER operation SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX executions_use ON executions (expires, approval, step);
CREATE UNIQUE INDEX executions_id ON executions (tenant, id);

-- The executions that have no receipt yet.
CREATE TABLE running (
	tenant   text   COLLATE "C" NOT NULL,
	sequence bigint NOT NULL,
	process  text   COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, sequence)
);

-- The receipt of an execution. The digest is the SHA-256 of its envelope, and stays when retention drops that.
CREATE TABLE receipts (
	tenant    text   COLLATE "C" NOT NULL,
	sequence  bigint NOT NULL,
	outcome   text   COLLATE "C" NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'indeterminate')),
	completed bigint NOT NULL,
	digest    bytea  NOT NULL CHECK (octet_length(digest) = 32),
	body      bytea,
	PRIMARY KEY (tenant, sequence)
) WITH (toast_tuple_target = 8160);
ALTER TABLE receipts ALTER body SET STORAGE EXTERNAL;
CREATE INDEX receipts_kept ON receipts (tenant, completed) WHERE body IS NOT NULL;

-- Receipts that came after another, by their digests: each is one late-outcome event.
CREATE TABLE late (
	tenant   text   COLLATE "C" NOT NULL,
	sequence bigint NOT NULL,
	digest   bytea  NOT NULL CHECK (octet_length(digest) = 32),
	PRIMARY KEY (tenant, sequence, digest)
);

-- Policies are few and many executions name the same: each is kept once, by the SHA-256 of its bytes.
CREATE TABLE policies (
	sha256 bytea PRIMARY KEY CHECK (octet_length(sha256) = 32),
	body   bytea NOT NULL
);

CREATE TABLE counters (
	tenant text   COLLATE "C" NOT NULL,
	name   text   COLLATE "C" NOT NULL CHECK (name <> ''),
	value  bigint NOT NULL CHECK (value >= 0),
	PRIMARY KEY (tenant, name)
) WITH (fillfactor = 50);

-- Keys that were taken, and when they may be forgotten.
CREATE TABLE once (
	tenant text   COLLATE "C" NOT NULL,
	key    text   COLLATE "C" NOT NULL CHECK (key <> ''),
	until  bigint NOT NULL,
	PRIMARY KEY (tenant, key)
);
CREATE INDEX once_until ON once (tenant, until);

CREATE TABLE marks (
	tenant text   COLLATE "C" NOT NULL,
	name   text   COLLATE "C" NOT NULL CHECK (name <> ''),
	value  bigint NOT NULL CHECK (value > 0),
	PRIMARY KEY (tenant, name)
);

-- What was revoked, by the decision that says so.
CREATE TABLE revocations (
	number   bigint GENERATED ALWAYS AS IDENTITY,
	tenant   text  COLLATE "C" NOT NULL CHECK (tenant <> ''),
	subject  bytea NOT NULL CHECK (octet_length(subject) = 32),
	decision bytea NOT NULL CHECK (octet_length(decision) > 0),
	PRIMARY KEY (tenant, subject, number)
);

-- Approval requests.
CREATE TABLE requests (
	number     bigint GENERATED ALWAYS AS IDENTITY,
	tenant     text    COLLATE "C" NOT NULL CHECK (tenant <> ''),
	id         text    COLLATE "C" NOT NULL CHECK (id <> ''),
	requester  text    COLLATE "C" NOT NULL,
	key        text    COLLATE "C" NOT NULL CHECK (key <> ''),
	state      text    COLLATE "C" NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'cancelled', 'void', 'spent')),
	answered   boolean NOT NULL DEFAULT false,
	upstream   text    COLLATE "C" NOT NULL,
	tool       text    COLLATE "C" NOT NULL,
	effect     text    COLLATE "C" NOT NULL,
	details    bytea,
	created    bigint  NOT NULL,
	expires    bigint  NOT NULL,
	decision   bytea,
	decided_by text    COLLATE "C" NOT NULL DEFAULT '',
	decided    bigint  NOT NULL DEFAULT 0,
	reason     text    COLLATE "C" NOT NULL DEFAULT '',
	cause      text    COLLATE "C" NOT NULL DEFAULT '',
	execution  text    COLLATE "C" NOT NULL DEFAULT '',
	outcome    text    COLLATE "C" NOT NULL DEFAULT '',
	answer     bytea,
	delivered  boolean NOT NULL DEFAULT false,
	keep_until bigint  NOT NULL DEFAULT 0,
	PRIMARY KEY (tenant, number),
	UNIQUE (tenant, id),
	CHECK ((state = 'spent') = (execution <> '')),
	CHECK (state = 'spent' OR (outcome = '' AND answer IS NULL AND NOT delivered)),
	CHECK (state NOT IN ('approved', 'spent', 'denied') OR (decision IS NOT NULL AND decided_by <> ''))
);
CREATE INDEX requests_key ON requests (tenant, key, number);
CREATE INDEX requests_state ON requests (tenant, state, number);
CREATE UNIQUE INDEX requests_open ON requests (tenant, key) WHERE state IN ('pending', 'approved');
CREATE INDEX requests_expiry ON requests (expires) WHERE state IN ('pending', 'approved');
CREATE INDEX requests_answers ON requests (keep_until) WHERE answer IS NOT NULL;

-- Callers that wait for a request, each in a process that can die.
CREATE TABLE waiters (
	tenant  text COLLATE "C" NOT NULL,
	request text COLLATE "C" NOT NULL,
	waiter  text COLLATE "C" NOT NULL CHECK (waiter <> ''),
	process text COLLATE "C" NOT NULL CHECK (process <> ''),
	PRIMARY KEY (tenant, request, waiter),
	FOREIGN KEY (tenant, request) REFERENCES requests (tenant, id)
);
CREATE INDEX waiters_process ON waiters (process);

-- Upstreams as they were last seen, and what people said of them.
CREATE TABLE servers (
	tenant   text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
	id       text   COLLATE "C" NOT NULL CHECK (id <> ''),
	name     text   COLLATE "C" NOT NULL,
	identity bytea  NOT NULL,
	tools    bytea  NOT NULL,
	pins     bytea  NOT NULL,
	classes  bytea,
	decision bytea,
	seen     bigint NOT NULL,
	PRIMARY KEY (tenant, id)
);

-- The tenants of a server. The epoch of each is its mark.
CREATE TABLE tenants (
	id      text   COLLATE "C" PRIMARY KEY CHECK (id <> ''),
	created bigint NOT NULL,
	body    bytea  NOT NULL
);

-- Credentials that were ended before their time, until nothing of them could be valid anyway: one, or all that a subject had
-- been issued.
CREATE TABLE revoked_credentials (
	tenant text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
	kind   text   COLLATE "C" NOT NULL CHECK (kind IN ('credential', 'subject')),
	name   text   COLLATE "C" NOT NULL CHECK (name <> ''),
	at     bigint NOT NULL,
	until  bigint NOT NULL CHECK (until > at),
	PRIMARY KEY (tenant, kind, name)
);

-- What was used of rates, until it is out of every window. A row without a state is one that is about to get it.
CREATE TABLE rates (
	tenant    text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
	principal text   COLLATE "C" NOT NULL CHECK (principal <> ''),
	kind      text   COLLATE "C" NOT NULL CHECK (kind IN ('request', 'read', 'write')),
	tool      text   COLLATE "C" NOT NULL CHECK ((tool = '') = (kind = 'request')),
	until     bigint NOT NULL,
	state     bytea  NOT NULL,
	PRIMARY KEY (tenant, principal, kind, tool)
) WITH (fillfactor = 50);

-- API keys, by the SHA-256 of their texts. Lists of names are one a line. An end of 0 is none.
CREATE TABLE api_keys (
	tenant     text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
	id         text   COLLATE "C" NOT NULL CHECK (id <> ''),
	hash       bytea  NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
	subject    text   COLLATE "C" NOT NULL CHECK (subject <> ''),
	kind       text   COLLATE "C" NOT NULL CHECK (kind IN ('agent', 'person', 'service')),
	owner      text   COLLATE "C" NOT NULL CHECK (owner <> '' AND (kind <> 'person' OR owner = subject)),
	scopes     text   COLLATE "C" NOT NULL,
	label      text   COLLATE "C" NOT NULL,
	created    bigint NOT NULL,
	created_by text   COLLATE "C" NOT NULL CHECK (created_by <> ''),
	expires    bigint NOT NULL CHECK (expires >= 0),
	last_used  bigint NOT NULL DEFAULT 0,
	successor  text   COLLATE "C" NOT NULL DEFAULT '',
	PRIMARY KEY (tenant, id)
);
CREATE INDEX api_keys_expiry ON api_keys (expires) WHERE expires > 0;

-- Whose the names are that keys speak under, for good: nobody else inherits what was granted to one.
CREATE TABLE key_subjects (
	tenant  text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
	kind    text   COLLATE "C" NOT NULL CHECK (kind <> ''),
	subject text   COLLATE "C" NOT NULL CHECK (subject <> ''),
	owner   text   COLLATE "C" NOT NULL CHECK (owner <> ''),
	PRIMARY KEY (tenant, kind, subject)
);

-- People with passwords, which are hashed with Argon2id.
CREATE TABLE users (
	tenant   text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
	name     text   COLLATE "C" NOT NULL CHECK (name <> ''),
	password text   COLLATE "C" NOT NULL CHECK (password LIKE '$argon2id$%'),
	scopes   text   COLLATE "C" NOT NULL,
	groups   text   COLLATE "C" NOT NULL,
	disabled boolean NOT NULL,
	created  bigint NOT NULL,
	changed  bigint NOT NULL,
	version  bigint NOT NULL CHECK (version > 0),
	PRIMARY KEY (tenant, name)
);

-- Lines of refresh credentials, each with the SHA-256 of the only one that is good.
CREATE TABLE refresh_families (
	id      bytea  PRIMARY KEY CHECK (octet_length(id) = 32),
	tenant  text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
	name    text   COLLATE "C" NOT NULL CHECK (name <> ''),
	newest  bytea  NOT NULL CHECK (octet_length(newest) = 32),
	created bigint NOT NULL,
	expires bigint NOT NULL CHECK (expires > created),
	issued  bigint NOT NULL
);
CREATE INDEX refresh_families_user ON refresh_families (tenant, name, created);
CREATE INDEX refresh_families_expiry ON refresh_families (expires);

-- How many logins failed. The key is a digest of the tenant and the user, the address, or all three: an address is no tenant's.
CREATE TABLE login_tallies (
	key      bytea  PRIMARY KEY CHECK (octet_length(key) = 32),
	failures bigint NOT NULL CHECK (failures >= 0),
	last     bigint NOT NULL,
	until    bigint NOT NULL,
	known    bigint NOT NULL,
	forget   bigint NOT NULL
);
CREATE INDEX login_tallies_forget ON login_tallies (forget);

-- The credential of a server that has no tenants yet.
CREATE TABLE bootstrap (
	id      int    PRIMARY KEY CHECK (id = 1),
	hash    bytea  NOT NULL CHECK (octet_length(hash) = 32),
	expires bigint NOT NULL
);

-- The names of tenants' secrets, with the highest version that each ever had: it stays when the versions are deleted, so that
-- none comes twice.
CREATE TABLE vault_names (
	tenant text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
	name   text   COLLATE "C" NOT NULL CHECK (name <> ''),
	last   bigint NOT NULL CHECK (last > 0),
	PRIMARY KEY (tenant, name)
);

-- Their versions, sealed.
CREATE TABLE vault_values (
	number   bigint GENERATED ALWAYS AS IDENTITY,
	tenant   text   COLLATE "C" NOT NULL,
	name     text   COLLATE "C" NOT NULL,
	version  bigint NOT NULL CHECK (version > 0),
	created  bigint NOT NULL,
	value    bytea  NOT NULL CHECK (octet_length(value) > 0),
	metadata bytea  NOT NULL CHECK (octet_length(metadata) > 0),
	PRIMARY KEY (tenant, number),
	UNIQUE (tenant, name, version),
	FOREIGN KEY (tenant, name) REFERENCES vault_names (tenant, name)
);

-- The keys that values were sealed under, each with one that proves it.
CREATE TABLE vault_keys (
	number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id      text   COLLATE "C" NOT NULL UNIQUE CHECK (id <> ''),
	proof   bytea  NOT NULL CHECK (octet_length(proof) > 0),
	created bigint NOT NULL
);

-- What callers repeat under a key of theirs. The answer is sealed.
CREATE TABLE idempotency (
	number    bigint  GENERATED ALWAYS AS IDENTITY,
	tenant    text    COLLATE "C" NOT NULL CHECK (tenant <> ''),
	id        text    COLLATE "C" NOT NULL CHECK (id <> ''),
	principal text    COLLATE "C" NOT NULL CHECK (principal <> ''),
	body      bytea   NOT NULL CHECK (octet_length(body) = 32),
	running   boolean NOT NULL,
	answer    bytea   CHECK (octet_length(answer) > 0),
	until     bigint  NOT NULL,
	CHECK (NOT running OR answer IS NULL),
	PRIMARY KEY (tenant, number),
	UNIQUE (tenant, id)
);
CREATE INDEX idempotency_expiry ON idempotency (tenant, principal, until);

-- What is asked, or told, about requests and calls. Body and secret are sealed or opaque here.
CREATE TABLE hooks (
	number  bigint GENERATED ALWAYS AS IDENTITY,
	tenant  text   COLLATE "C" NOT NULL CHECK (tenant <> ''),
	id      text   COLLATE "C" NOT NULL CHECK (id <> ''),
	phase   text   COLLATE "C" NOT NULL CHECK (phase IN ('pre-request', 'post-request', 'pre-call', 'post-call')),
	version bigint NOT NULL CHECK (version > 0),
	body    bytea  NOT NULL CHECK (octet_length(body) > 0),
	secret  bytea  CHECK (octet_length(secret) > 0),
	PRIMARY KEY (tenant, number),
	UNIQUE (tenant, id)
);

-- Hashes of the console's sign-in codes and sessions.
CREATE TABLE secrets (
	kind    text   COLLATE "C" NOT NULL CHECK (kind <> ''),
	hash    text   COLLATE "C" NOT NULL CHECK (hash <> ''),
	expires bigint NOT NULL,
	PRIMARY KEY (kind, hash)
);
CREATE INDEX secrets_expiry ON secrets (expires);

-- The leases of the processes, by the clock of the database. A process without a row is dead.
CREATE TABLE processes (
	id    text   COLLATE "C" PRIMARY KEY CHECK (id <> ''),
	until bigint NOT NULL
) WITH (fillfactor = 50);

-- Every commit raises one of these, so that their sum is another after it. There are several so that commits of different
-- tenants don't wait for each other.
CREATE TABLE versions (
	slot int    PRIMARY KEY,
	n    bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO versions (slot, n) SELECT slot, 0 FROM generate_series(0, 15) AS slot;

-- What is final stays as it is, whoever asks.
CREATE FUNCTION final() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'this record is final'; END $$;
CREATE TRIGGER events_stay BEFORE UPDATE ON events FOR EACH ROW
	WHEN ((OLD.tenant, OLD.sequence, OLD.at, OLD.leaf, OLD.phase, OLD.execution) IS DISTINCT FROM
		(NEW.tenant, NEW.sequence, NEW.at, NEW.leaf, NEW.phase, NEW.execution) OR NEW.body IS NOT NULL)
	EXECUTE FUNCTION final();
CREATE TRIGGER events_last BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION final();
CREATE TRIGGER executions_stay BEFORE UPDATE ON executions FOR EACH ROW
	WHEN ((OLD.tenant, OLD.sequence, OLD.id, OLD.request, OLD.process, OLD.approval, OLD.step, OLD.use, OLD.started, OLD.expires,
		OLD.consumption) IS DISTINCT FROM (NEW.tenant, NEW.sequence, NEW.id, NEW.request, NEW.process, NEW.approval, NEW.step,
		NEW.use, NEW.started, NEW.expires, NEW.consumption) OR NOT (NEW.approved, NEW.dry_run, NEW.operation) IS NULL AND
		((OLD.policy, OLD.approved, OLD.dry_run) IS DISTINCT FROM (NEW.policy, NEW.approved, NEW.dry_run) OR
		OLD.operation IS DISTINCT FROM NEW.operation AND
			(OLD.operation IS NULL OR substring(NEW.operation FROM 1 FOR 4) IS DISTINCT FROM 'cf1.'::bytea)))
	EXECUTE FUNCTION final();
CREATE TRIGGER executions_last BEFORE DELETE ON executions FOR EACH ROW EXECUTE FUNCTION final();
CREATE TRIGGER receipts_stay BEFORE UPDATE ON receipts FOR EACH ROW
	WHEN ((OLD.tenant, OLD.sequence, OLD.outcome, OLD.completed, OLD.digest) IS DISTINCT FROM
		(NEW.tenant, NEW.sequence, NEW.outcome, NEW.completed, NEW.digest) OR NEW.body IS NOT NULL)
	EXECUTE FUNCTION final();
CREATE TRIGGER receipts_last BEFORE DELETE ON receipts FOR EACH ROW EXECUTE FUNCTION final();
CREATE TRIGGER revocations_stay BEFORE UPDATE OR DELETE ON revocations FOR EACH ROW EXECUTE FUNCTION final();
CREATE TRIGGER vault_names_rise BEFORE UPDATE ON vault_names FOR EACH ROW WHEN (NEW.last <= OLD.last) EXECUTE FUNCTION final();
CREATE TRIGGER vault_names_last BEFORE DELETE ON vault_names FOR EACH ROW EXECUTE FUNCTION final();
CREATE TRIGGER marks_rise BEFORE UPDATE ON marks FOR EACH ROW WHEN (NEW.value <= OLD.value) EXECUTE FUNCTION final();
CREATE TRIGGER marks_last BEFORE DELETE ON marks FOR EACH ROW EXECUTE FUNCTION final();
CREATE TRIGGER key_subjects_stay BEFORE UPDATE OR DELETE ON key_subjects FOR EACH ROW EXECUTE FUNCTION final();
CREATE TRIGGER users_last BEFORE DELETE ON users FOR EACH ROW EXECUTE FUNCTION final();
`
