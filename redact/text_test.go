package redact_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/redact"
)

// The samples are made up, and cut apart so that no scanner takes this file for a leak.
const (
	hex40 = "3f786850e387550fdab836ed7e6dc881de23001b"
	hex64 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

func fake(parts ...string) string { return strings.Join(parts, "") }

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		// URLs
		{"user info with two @", "https://bob:a@b9x7@h.test/p", "https://bob:***@h.test/p"},
		{"database", "postgres://u:s3cret@h/db?password=s3cret2&sslpassword=s3cret3", "postgres://u:***@h/db?password=***&sslpassword=***"},
		{"driver in the scheme", "postgresql+asyncpg://u:s3cret@h:5432/db", "postgresql+asyncpg://u:***@h:5432/db"},
		{"redis without a user", "redis://:s3cret@h:6379/0", "redis://:***@h:6379/0"},
		{"several hosts", "mongodb+srv://u:s3cret@h1:1,h2:2/db", "mongodb+srv://u:***@h1:1,h2:2/db"},
		{"encoded name", "https://h/?%61pi_key=S", "https://h/?%61pi_key=***"},
		{"twice encoded name", "https://h/?%2561pi_key=S&b=1", "https://h/?%2561pi_key=***&b=1"},
		{"fragment", "https://h/#access_token=S", "https://h/#access_token=***"},
		{"fragment after query", "https://h/?a=1#access_token=S&token_type=bearer", "https://h/?a=1#access_token=***&token_type=bearer"},
		{"no scheme", "//u:S@h", "//u:***@h"},
		{"escaped slashes", `https:\/\/u:s3cret@h\/p`, `https:\/\/u:***@h\/p`},
		{"slash in the password", `parse "postgres://u:s3c/ret@h:1/db": invalid port`, `parse "postgres://u:***@h:1/db": invalid port`},
		{"bad escape in the password", `parse "https://u:s3cret%zz@h/": invalid URL escape "%zz"`, `parse "https://u:***@h/": invalid URL escape "%zz"`},
		{"location header", "Location: https://u:s3cret@h/cb?code=1&token=abc", "Location: https://u:***@h/cb?code=1&token=***"},
		{"token as the user", "https://" + hex40 + "@h.test/x.git", "https://***@h.test/x.git"},
		{"token before nothing", "https://" + hex40 + ":@h.test/", "https://***:@h.test/"},
		{"token before a word", "https://" + hex40 + ":x-oauth-basic@h.test/", "https://***:***@h.test/"},
		{"encoded colon", "https://u%3As3cret@h/", "https://u%3A***@h/"},
		{"in quotes", `'https://u:s3cret@h/p','x@y'`, `'https://u:***@h/p','x@y'`},
		{"signed, AWS", "https://b.test/o?X-Amz-Credential=AK%2F1&X-Amz-Date=1&X-Amz-Signature=abc", "https://b.test/o?X-Amz-Credential=***&X-Amz-Date=1&X-Amz-Signature=***"},
		{"signed, Azure", "https://b.test/o?sv=1&sig=a%2Bb&se=2", "https://b.test/o?sv=1&sig=***&se=2"},
		{"map key", "https://h/?key=q7R2k9Lm4Xz8Tn3vB1&q=x", "https://h/?key=***&q=x"},
		{"URL in a URL", "https://h/?to=https%3A%2F%2Fi%2F%3Fapi_key%3DS3%26b%3D1", "https://h/?to=https%3A%2F%2Fi%2F%3Fapi_key%3D***%26b%3D1"},
		{"entity", "https://h/?a=1&amp;api_key=S3&amp;b=2", "https://h/?a=1&amp;api_key=***&amp;b=2"},
		{"data source name", "bob:s3cret@tcp(h:3306)/db", "bob:***@tcp(h:3306)/db"},

		{"slash in the password, unquoted", "dial postgres://u:s3c/ret@h:1/db failed", "dial postgres://u:***@h:1/db failed"},
		{"blank in the password", `parse "postgres://u:my secret@h:1/db": invalid character " " in host name`, `parse "postgres://u:***@h:1/db": invalid character " " in host name`},
		{"encoded ampersand in it", "https://h/?password=ab%26cdef&x=1", "https://h/?password=***&x=1"},

		// What drivers of databases say
		{"port that is a password", `parse "postgres://u:s3cretpw": invalid port ":s3cretpw" after host`, `parse "postgres://u:***": invalid port ":***" after host`},
		{"data source without a host", "u:s3cretpw@/db", "u:***@/db"},
		{"data source of another network", "u:s3cretpw@cloudsql(p:r:i)/db", "u:***@cloudsql(p:r:i)/db"},
		{"data source with an address", "open u:s3cretpw@(h:3306)/db: refused", "open u:***@(h:3306)/db: refused"},
		{"Oracle, thin", "jdbc:oracle:thin:scott/tiger12@h:1521:x", "jdbc:oracle:thin:scott/***@h:1521:x"},
		{"Oracle, a service", "scott/tiger12@//h:1521/x", "scott/***@//h:1521/x"},
		{"a quote escaped", `user=u password=s3\'cretpw dbname=d`, `user=u password=*** dbname=d`},
		{"a structure of Go", "&{Host:h Password:correcthorse User:u}", "&{Host:h Password:*** User:u}"},
		{"a map of Go", "map[password:correcthorse user:u]", "map[password:*** user:u]"},
		{"one word", "dbpass=hunter bindpw=hunter pw=hunter", "dbpass=*** bindpw=*** pw=***"},
		{"a statement", "CREATE USER u IDENTIFIED WITH sha2 BY 'correct horse'", "CREATE USER u IDENTIFIED WITH sha2 BY '***'"},
		{"another statement", "SET PASSWORD FOR u = 'hunter'", "SET PASSWORD FOR u = '***'"},
		{"a client's flag", "mysql -uroot -phunter db", "mysql -uroot -p*** db"},
		{"a wrapper's flag", "sshpass -p hunter ssh h", "sshpass -p *** ssh h"},
		{"a configuration", "requirepass s3cretpw1", "requirepass ***"},
		{"told", "the password is s3cretpw1, the token was 'a1b2c3d4'", "the password is ***, the token was '***'"},
		{"of two words", "API key: s3cretpw1", "API key: ***"},
		{"YAML, on the next line", "db:\n  password:\n    s3cretpw\n  user: x", "db:\n  password:\n    ***\n  user: x"},
		{"a signature by its name", "X-Amz-Signature=0a1b2c3d4e5f", "X-Amz-Signature=***"},
		{"shared access", "SharedAccessSignature sr=h&sig=s3cretpw&se=1", "SharedAccessSignature ***"},

		// Assignments
		{"JSON, laid out", "x {\"password\":\n  \"hunter\"}", "x {\"password\":\n  \"***\"}"},
		{"YAML block", "a:\n  password: |\n    hunter\n\n    two\n  user: bob\n", "a:\n  password: |\n    ***\n  user: bob\n"},
		{"YAML block at the end", "secret: >-\n  hunter", "secret: >-\n  ***"},
		{"environment", "API_KEY=abc PASSWORD=def SECRET = ghi1234\nTOKEN=jkl CREDENTIAL=mno", "API_KEY=*** PASSWORD=*** SECRET = ***\nTOKEN=*** CREDENTIAL=***"},
		{"key words", "host=h user=u password=s3cret dbname=d", "host=h user=u password=*** dbname=d"},
		{"key words, quoted", `host=h password='a b\'c' dbname=d`, `host=h password='***' dbname=d`},
		{"connection string", "Server=db.internal;User Id=sa;Password=hunter2;Database=x", "Server=db.internal;User Id=sa;Password=***;Database=x"},
		{"account key", "AccountName=a;AccountKey=abc/d+e==;EndpointSuffix=x", "AccountName=a;AccountKey=***;EndpointSuffix=x"},
		{"comma in it", "password=ab,cdefgh", "password=***"},
		{"ampersand in it", "password=ab&cdefgh", "password=***"},
		{"comma after it", "password=hunter2, host=h", "password=***, host=h"},
		{"JSON", `x {"apiKey": "abc", "password":"def","token":"g h"}`, `x {"apiKey": "***", "password":"***","token":"***"}`},
		{"JSON in a string", `"{\"password\":\"d\\\"ef\",\"a\":1}"`, `"{\"password\":\"***\",\"a\":1}"`},
		{"YAML", "db:\n  password: hunter\n  user: bob\n", "db:\n  password: ***\n  user: bob\n"},
		{"properties", "spring.datasource.password=correcthorse", "spring.datasource.password=***"},
		{"form", "user[password]=hunter&x=1", "user[password]=***&x=1"},
		{"arrow", "'password' => 'hunter'", "'password' => '***'"},
		{"Go", `password := "hunter"`, `password := "***"`},
		{"ODBC", "UID=sa;PWD=hunter;Server=h", "UID=sa;PWD=***;Server=h"},
		{"template with a secret", "password=\"${A}hunter2\"", "password=\"***\""},
		{"npmrc", "//registry.test/:_authToken=abc", "//registry.test/:_authToken=***"},
		{"in a sentence", "login with password: hunter2 failed", "login with password: *** failed"},
		{"flags", `x --api-key abc1 --password=hunter --token "X" -v`, `x --api-key *** --password=*** --token "***" -v`},
		{"flag with a word", "x --password hunter --force", "x --password *** --force"},

		{"beside a template", "password={{secret:a}}hunter2 x", "password=*** x"},

		// Headers
		{"bearer", "Authorization: Bearer abc", "Authorization: Bearer ***"},
		{"basic", "authorization: Basic dXNlcjpwYXNz", "authorization: Basic ***"},
		{"token", "Authorization: Token abc123", "Authorization: Token ***"},
		{"no scheme", "Authorization: abc123def", "Authorization: ***"},
		{"list", `Authorization: Digest username="u", response="6629fae4"`, "Authorization: Digest ***"},
		{"curl", `curl -H "Authorization: Bearer abc" -H 'X-Api-Key: s3cret' h`, `curl -H "Authorization: Bearer ***" -H 'X-Api-Key: ***' h`},
		{"bearer alone", "got Bearer q7R2k9Lm4Xz8 from it", "got Bearer *** from it"},
		{"basic alone", "got Basic dXNlcjpwYXNz from it", "got Basic *** from it"},
		{"cookies", "Cookie: sid=abc; x=y\nHost: h", "Cookie: ***\nHost: h"},
		{"set cookie", "Set-Cookie: sid=abc; Path=/; HttpOnly", "Set-Cookie: ***"},

		{"as Go prints them", "map[Authorization:[Bearer abc] X-Api-Key:[hunter2] Accept:[*/*]]", "map[Authorization:[Bearer ***] X-Api-Key:[***] Accept:[*/*]]"},
		{"user of curl", "curl -s -u bob:hunter https://h/", "curl -s -u bob:*** https://h/"},
		{"netrc", "machine h login bob password hunter\nmachine i", "machine h login bob password ***\nmachine i"},
		{"XML", "<server><username>u</username><password>hunter</password></server>", "<server><username>u</username><password>***</password></server>"},
		{"user info in a URL in a URL", "https://h/?to=https%3A%2F%2Fbob%3Ahunter%40i%2Fp", "https://h/?to=https%3A%2F%2Fbob%3A***%40i%2Fp"},

		// Blocks
		{"PEM", "a\n-----BEGIN RSA " + "PRIVATE KEY-----\nMIIB\n-----END RSA " + "PRIVATE KEY-----\nb", "a\n***\nb"},
		{"PEM, cut off", "a\n-----BEGIN " + "PRIVATE KEY-----\nMIIB", "a\n***"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, rep := redact.Text(tt.in)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if rep.Clean() || len(rep.Findings) == 0 {
				t.Error("the report says nothing")
			}
			if again, rep := redact.Text(got); again != got || !rep.Clean() {
				t.Errorf("again: %q, %+v", again, rep)
			}
		})
	}
}

// Each published form, alone, in quotes, in a URL and after other text.
func TestText_forms(t *testing.T) {
	t.Parallel()
	body := "q7R2k9Lm4Xz8Tn3vB1cY6wP0sD5f"
	for _, tt := range []struct {
		kind   redact.Kind
		sample string
	}{
		{redact.KindOpenAI, fake("sk-", body)},
		{redact.KindOpenAI, fake("sk-proj-", body)},
		{redact.KindAnthropic, fake("sk-ant-api03-", body, "-", body)},
		{redact.KindGitHub, fake("ghp_", body)},
		{redact.KindGitHub, fake("github_pat_", body)},
		{redact.KindSlack, fake("xoxb-", "123456789012-", body)},
		{redact.KindSlack, fake("xapp-1-", body)},
		{redact.KindGoogle, fake("AIza", body, "abcdefg")},
		{redact.KindGoogle, fake("ya29.", body)},
		{redact.KindGoogle, fake("GOCSPX-", body)},
		{redact.KindAWS, fake("AKIA", "IOSFODNN7EXAMPLE")},
		{redact.KindAWS, fake("ASIA", "IOSFODNN7EXAMPLE")},
		{redact.KindStripe, fake("sk_live_", body)},
		{redact.KindStripe, fake("rk_test_", body)},
		{redact.KindStripe, fake("whsec_", body)},
		{redact.KindProvider, fake("glpat-", body)},
		{redact.KindProvider, fake("hf_", body)},
		{redact.KindProvider, fake("r8_", body)},
		{redact.KindProvider, fake("npm_", body, "abcdefgh")},
		{redact.KindProvider, fake("pypi-AgE", body)},
		{redact.KindProvider, fake("SG.", body, ".", body)},
		{redact.KindProvider, fake("pplx-", body)},
		{redact.KindProvider, fake("dop_v1_", hex64)},
		{redact.KindProvider, fake("a33_", body)},
		{redact.KindProvider, fake("hvs.", body)},
		{redact.KindCounterfoil, fake("cfk_", body)},
		{redact.KindCounterfoil, fake("cfr_", body)},
		{redact.KindCounterfoil, fake("cfb_", body)},
		{redact.KindCounterfoil, fake("cf1.k1.", body, body)},
		{redact.KindCounterfoil, fake("cf1.k-4f03928abd467d87.", body, body)},
		{redact.KindProvider, fake("gAAAAABl", body, body, body, body, "==")},
		{redact.KindJWT, fake("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxIn0", ".", body)},
		{redact.KindJWT, fake("eyJhbGciOiJub25lIn0", ".eyJzdWIiOiIxIn0", ".")},
	} {
		for _, around := range [][2]string{{"", ""}, {`"`, `"`}, {"https://h/?q=", "&x=1"}, {"see ", ", then"}, {`a\n`, `\n`}, {"https://h/?q=%20", ""}} {
			in := around[0] + tt.sample + around[1]
			got, rep := redact.Text(in)
			if want := around[0] + redact.Mask + around[1]; got != want || len(rep.Findings) != 1 || rep.Findings[0].Kind != tt.kind {
				t.Errorf("%s: got %q, %+v", tt.kind, got, rep)
			}
		}
	}
	for _, in := range []string{
		fake("https://hooks.slack.com/services/", "T0AAA/B0BBB/", body), fake("https://discord.com/api/webhooks/12345/", body, body),
		fake("https://api.telegram.test/bot123456789:", body, "abcdefgh/send"), fake("https://", "ghp_", body, ":x@h/"),
	} {
		if got, rep := redact.Text(in); strings.Contains(got, body[:4]) || rep.Clean() {
			t.Errorf("got %q", got)
		}
	}
}

// What holds no secret stays as it is.
func TestText_unchanged(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"",
		"upstream https://up.test:8443 denied the call of bot:planner@host7",
		"ask it@corp.test about https://h.test:1/x",
		"https://h.test:1,bob@c.test", "['https://h.test','bob@c.test']", "(https://h.test:1),x@y",
		"-  password=\n+  user=\n", "password=", "password:\n", `password=""`, "password=***", `{"password":""}`,
		hex64, hex40, "commit " + hex40, "550e8400-e29b-41d4-a716-446655440000", "sha256:" + hex64,
		"run-" + hex40[:32], "apr-" + hex40[:32], "token=sha256:" + hex64, `{"token":"apr-` + hex40[:32] + `"}`,
		"git@github.com:org/repo.git", "ssh://git@github.com/org/repo", "https://bob@h.test/", "https://unpkg.test/@scope/pkg@1.2.3/x.js",
		"http://localhost:8080/@vite/client", "http://[::1]:80/a@b", "https://u:${PASSWORD}@h/", "https://user:***@h/", "https://u:xxxxx@h/",
		"postgres://localhost:5432/db", "http://$HOST:$PORT/a@b",
		"author: bob", "authority=me", "tokenizer=bert", "passenger: eve", "secretary=ann", "keyboard: us", "monkey=1", "bypass=1",
		"from sklearn.feature_extraction.text import CountVectorizer\nv = CountVectorizer(tokenizer=tokenize, token_pattern=r'\\w+')\n",
		`<div class="sk-toggleable__content sk-container-id-1-with-a-very-long-name">`, "sk-short", "sk-averyveryverylongnamewithoutanend", "--tokenizer bert-base-uncased",
		"PATH=/usr/bin LOG_LEVEL=debug HOST=h PORT=1 DB_NAME=app", "max_tokens=4096 token_count: 12 tokenType=Bearer",
		`{"max_tokens": 10, "nextPageToken": "CAUQAA", "token_endpoint": "https://h/token", "password_policy": "long"}`,
		"token = os.environ[\"TOKEN\"]", "password = getpass.getpass()", "password=self.password", "token=token", "api_key=config.api_key",
		"password: str = Field(...)", "password?: string;", "token: Token,", "if token == expected {", "if password != \"x\" {",
		"const token = await login();", "secret = None", "password: required", "std::token::secret", "f(token=tok)", "password=$DB_PASSWORD",
		"api_key: ${{ secrets.API_KEY }}", "export TOKEN=$(cat file)", "token = \"if\"", "for token in tokens:", "token: a short history",
		"use --password to set it", "--token TOKEN  the token", "--password <password>", "--token=$TOKEN", "password %s", "password=%s",
		"Bearer token", "bearer of good news", "Bearer authentication", "Basic authentication", "basic training",
		"Authorization: required", "Authorization: Bearer $TOKEN", "Authorization: Bearer <token>", "auth: none", "authorization: the act of", "auth=basic",
		"Cookie: a small biscuit", "cookie = parse(x)", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		"-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----", "eyJhbGciOiJIUzI1NiJ9", "task-force-q7R2k9Lm4Xz8Tn3vB1cY6wP0",
		"https://h/?code=US&state=x&key=name&sort_key=a", "user@host: no such file", "a//b//c", "// note: ask bob@corp.test",
		"c.auth = &oauth.ClientSecret{", "secret: &oauth.Secret{A: 1}", "jwt = new(X)", "credentials?: 'include' | 'omit'", `strings.HasPrefix(e, "TOKEN=") || x`,
		"PWD=/home/bob", "throw new Error(`invalid token: ${text}`)", "const token = `${header}.${payload}`", "maxPass = 1024", "totp := 0", "p.pass = &p",
		"secret: !0,", "invalidToken?: CustomResponse;", `grantJWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"`, `token = "https://h.test/oauth/token"`,
		"--- PASS: TestAddr/ipv4 (0.00s)", "PASS: x1y2z3", "[sponsor-auth0]: https://a0.test/signup", `"NoPSKBinder": "first pass"`, "TokenTypeError.errorCode = 'x1y2z3'",
		`"http://h.test:80 is up, ask bob@corp.test"`, "password: |\nuser: bob", "secret: >-\n  ***\nx: 1",
		"Error 1045 (28000): Access denied for user 'u'@'h' (using password: YES)", "pq: password authentication failed for user \"u2\"", "mkdir -p x1y2z3/mysql",
		"cannot connect to `user=u database=d`: h (1.2.3.4): token 0x1a2b3c4d5e6f is unknown", "password: \nuser: b0b123", "the password is required", "dial tcp 10.0.0.1:5432: i/o timeout",
		"npm i @scope/pkg1@1.2.3", "bypass=x1y2z3", "compass: x1y2z3", "invalid port \":\" after host", "a secret word", "http://localhost:port/x",
		"AKIAshort", "cfk_short", "cfr_", "cf1.k1.short", "cf1.k1", "gAAAAABl", "Authorization: Bearer {{secret:api-key}}", "token={{secret:api.key@12}}",
		`{"X-Api-Key": "{{secret:key@2}}", "password": "{{secret:db_1}}"}`, "--token {{secret:key}}", "docker run -u node:node x", "<password>", "<password></password>", "<token>${T}</token>", "login with password please",
		"https://h/?to=https%3A%2F%2Fi%3A80%2Fa%40b", "\xff\xfe password \x00", "===:::===", "a=b", ":", "=", "//", "@tcp(",
	} {
		got, rep := redact.Text(in)
		if diff := cmp.Diff(in, got); diff != "" || !rep.Clean() {
			t.Errorf("%q: %s %+v", in, got, rep)
		}
	}
}
