package counterfoil_test

import (
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// What a lenient URL parser makes of a citation, and what we do. Where the two differ, the lenient one repairs or resolves:
// the same bytes would mean another resource to the next program, so that they are refused. The rows without a remark mean
// the same to both.
func TestParseCitation(t *testing.T) {
	t.Parallel()
	const host = "https://data.example.test"
	const refused = ""
	for _, c := range []struct{ uri, want, remark string }{
		{host + "/incidents", host + "/incidents", ""},
		{host + "/%2569ncidents", host + "/incidents", ""},
		{host + "/%252569ncidents", host + "/incidents", ""},
		{host + "/%25252569ncidents", refused, "encoded too often"},
		{host + "/%252e%252e/private", refused, "traversal"},
		{host + "/incidents/..%2fprivate", refused, "traversal"},
		{host + "/x/../incidents", refused, "a parser resolves it to /incidents before anybody looks"},
		{host + "/%2e%2e/private", refused, "a parser resolves it to /private"},
		{host + "/%2E/private", refused, "a parser resolves it to /private"},
		{host + "/.", refused, "a parser resolves it to /"},
		{host + "/a%2Fb", host + "/a/b", "an encoded slash becomes a separator, which allowlists see"},
		{host + "/100%25", refused, "a literal percent sign can't be expressed"},
		{host + "/100%", refused, ""},
		{host + "/%FF", refused, ""},
		{host + "/%2525", refused, ""},
		{host + "/%zz", refused, ""},
		{host + "/%252525zz", refused, "a percent sign that is left over"},
		{host + "/%00", refused, ""},
		{host + "/%7f", refused, ""},
		{host + "/%5c", refused, ""},
		{host + "/%3F", refused, ""},
		{host + "/%23", refused, ""},
		{host + "/%C2%85", refused, "a C1 control; a lenient parser takes it"},
		{host + "/%E2%80%8Bx", refused, "a character that nobody sees"},
		{host + "/%EF%BC%8E%EF%BC%8E/x", refused, "full-width dots: a server that folds look-alikes climbs"},
		{host + "/%E2%80%A5/x", refused, "two dot leader: the same"},
		{host + "/cafe%CC%81", host + "/caf%C3%A9", "normal form C"},
		{host + "/caf%c3%a9", host + "/caf%C3%A9", ""},
		{host + "/%41", host + "/A", ""},
		{host + "/a//b/", host + "/a//b/", ""},
		{host + "/a;b=c:d@e,f+g", host + "/a%3Bb%3Dc%3Ad%40e%2Cf%2Bg", ""},
		{host + "/-_.!~*'()", host + "/-_.!~*'()", ""},
		{host + "/...", host + "/...", "three dots are a name"},
		{host + "/a%20b", host + "/a%20b", ""},
		{host + "/a?", refused, "a parser drops the empty query"},
		{host + "/a#", refused, "a parser drops the empty fragment"},
		{host + "/a?b=c", refused, ""},
		{host + "/a#b", refused, ""},
		{host + "?", refused, ""},
		{"https://@data.example.test/a", refused, "a parser drops the empty user"},
		{"https://u@data.example.test/a", refused, ""},
		{"https://u:p@data.example.test/a", refused, ""},
		{"https:data.example.test/x", refused, "a parser adds the slashes"},
		{"https:/data.example.test/x", refused, "a parser adds a slash"},
		{"https:///data.example.test/x", refused, "a parser drops a slash"},
		{`https://data.example.test\x`, refused, "a parser turns the backslash"},
		{`https:\\data.example.test/x`, refused, "a parser turns the backslashes"},
		{host + `/a\b`, refused, "a parser turns the backslash"},
		{" " + host + "/a", refused, "a parser trims"},
		{host + "/a ", refused, "a parser trims"},
		{host + "/a b", refused, "a parser encodes the space"},
		{host + "/a\tb", refused, "a parser drops the tab"},
		{host + "/\u00e9", refused, "a parser encodes it; a URI is ASCII"},
		{host + "/<a>", refused, "a parser encodes them"},
		{host + ":443/a", host + "/a", ""},
		{host + ":8443/a", host + ":8443/a", ""},
		{host + ":/a", refused, "a parser drops the colon"},
		{host + ":0443/a", refused, "a parser drops the zero"},
		{host + ":0/a", refused, ""},
		{host + ":65536/a", refused, ""},
		{host + ":80a/a", refused, ""},
		{"https://data.example.test./a", refused, "one host has one spelling; a parser takes it for another origin"},
		{"https://0x7f.1/a", refused, "a parser makes 127.0.0.1 of it"},
		{"https://0177.0.0.1/a", refused, "a parser makes 127.0.0.1 of it"},
		{"https://2130706433/a", refused, "a parser makes 127.0.0.1 of it"},
		{"https://1.2.3/a", refused, "a parser makes 1.2.0.3 of it"},
		{"https://127.0.0.1/a", "https://127.0.0.1/a", ""},
		{"https://[::1]/a", refused, "addresses of version 6 have many spellings; write a name"},
		{"https://DATA.example.test/a", host + "/a", ""},
		{"HTTPS://data.example.test/a", refused, "a parser lowers the scheme"},
		{"http://data.example.test/a", refused, ""},
		{"ftp://data.example.test/a", refused, ""},
		{"//data.example.test/a", refused, ""},
		{"https://data%2eexample.test/a", refused, "a parser decodes the host"},
		{"https://data\u3002example.test/a", refused, "a parser turns the ideographic stop"},
		{"https://\uff44ata.example.test/a", refused, "a parser folds the full-width letter"},
		{"https://b\u00fccher.example/a", refused, "write the ASCII form"},
		{"https://xn--bcher-kva.example/a", "https://xn--bcher-kva.example/a", ""},
		{"https://xn--a/a", "https://xn--a/a", "it is not looked into"},
		{"https://a-.test/a", refused, ""},
		{"https://" + strings.Repeat("\u4e00", 20_000) + "/a", refused, "looked at no longer than it may be"},
		{"https://a..b/a", refused, ""},
		{"https://-a.test/a", refused, ""},
		{"https://a_b.test/a", refused, ""},
		{"https://" + strings.Repeat("a", 64) + ".test/a", refused, ""},
		{"https://" + strings.Repeat("a.", 127) + "test/a", refused, ""},
		{"https://", refused, ""},
		{"https:///", refused, ""},
		{host, host + "/", "no path is the root"},
		{host + "/", host + "/", ""},
		{"", refused, ""},
		{host + "/" + strings.Repeat("a", 65_536), refused, ""},
		{host + "/" + strings.Repeat(";", 30_000), refused, "its canonical form is too long"},
	} {
		got, err := counterfoil.ParseCitation(c.uri)
		if got != c.want || (err == nil) == (c.want == refused) {
			t.Errorf("%.80q: got %.80q, %v; want %.80q (%s)", c.uri, got, err, c.want, c.remark)
		}
		if err != nil {
			wantCode(t, err, counterfoil.CodeInvalidInput)
			continue
		}
		if again, err := counterfoil.ParseCitation(got); err != nil || again != got {
			t.Errorf("%q is no fixed point: %q, %v", got, again, err)
		}
	}
}

func FuzzParseCitation(f *testing.F) {
	for _, s := range []string{
		"https://data.example.test/incidents", "https://a.b:8443/%252e", "https://b\u00fccher.example/%C3%A9", "https://1.2.3.4/a;b", "https:/x\\",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		got, err := counterfoil.ParseCitation(uri)
		if err != nil {
			refusal(t, err)
			if got != "" {
				t.Fatalf("a value %q beside an error", got)
			}
			return
		}
		if again, err := counterfoil.ParseCitation(got); err != nil || again != got {
			t.Fatalf("%q is no fixed point: %q, %v", got, again, err)
		}
		rest, ok := strings.CutPrefix(got, "https://")
		host, path, slash := strings.Cut(rest, "/")
		if !ok || !slash || host == "" || strings.ToLower(host) != host || strings.ContainsAny(got, "\\?#@ <>") {
			t.Fatalf("%q is not canonical", got)
		}
		for i := range len(got) {
			if got[i] <= ' ' || got[i] >= 0x7f {
				t.Fatalf("%q is not printable ASCII", got)
			}
		}
		for segment := range strings.SplitSeq(path, "/") {
			if segment == "." || segment == ".." {
				t.Fatalf("%q leaves itself", got)
			}
		}
	})
}

// cite gives the first step's source citations.
func cite(p doc, uris ...string) doc {
	all := list{}
	for _, u := range uris {
		all = append(all, doc{"uri": u})
	}
	asDoc(inside(p, "steps", 0, "source", "provenance"))["citations"] = all
	return p
}

func citing() doc {
	p := policy()
	s := asDoc(inside(p, "sources", "incidents"))
	s["citationOrigins"], s["citationResourcePrefixes"] = list{"https://data.example.test"}, list{"/incidents"}
	return p
}

const incidents = "https://data.example.test/incidents"

// A plan holds its citations in canonical form, however they were written, and its digests are of that form.
func TestParsePlan_citations(t *testing.T) {
	t.Parallel()
	want := cite(plan(), incidents, incidents+"/a%3Bb", incidents)
	asDoc(inside(want, "steps", 0, "source", "provenance", "citations", 1))["digest"] = digestOf("result", 1)
	raw := cite(plan(), "https://Data.example.test/%2569ncidents", incidents+"/a;b", incidents)
	asDoc(inside(raw, "steps", 0, "source", "provenance", "citations", 1))["digest"] = digestOf("result", 1)
	p := mustPlan(t, raw)
	if string(p.Canonical()) != string(canonical(want)) || p.Digest().String() != digestOf("plan", want) {
		t.Errorf("got %s", p.Canonical())
	}
	c := p.Steps()[0].Source.Citations
	if len(c) != 3 || c[0].URI != incidents || c[1].URI != incidents+"/a%3Bb" || c[1].Digest.String() != digestOf("result", 1) || !c[2].Digest.IsZero() {
		t.Errorf("got %v", c)
	}
	c[0].URI = "https://evil.example.test/"
	if p.Steps()[0].Source.Citations[0].URI != incidents {
		t.Error("the plan changed")
	}

	// Two steps may write one source in two ways, as long as they mean the same.
	two, pol := twoSteps()
	asDoc(inside(two, "steps", 0))["source"] = clone(inside(cite(plan(), incidents), "steps", 0, "source"))
	asDoc(inside(two, "steps", 1))["source"] = clone(inside(cite(plan(), "https://data.example.test:443/%69ncidents"), "steps", 0, "source"))
	pol["sources"] = citing()["sources"]
	_, err := mustPlan(t, two).DryRun(mustPolicy(t, pol), now())
	noError(t, err)
	asDoc(inside(two, "steps", 1))["source"] = clone(inside(cite(plan(), "https://data.example.test/other;"), "steps", 0, "source"))
	wantCode(t, drop(counterfoil.ParsePlan)(canonical(two)), counterfoil.CodeInvalidInput)

	// A recorded dry run holds canonical bytes or none.
	record := asDoc(decode(mustDryRun(t, cite(plan(), incidents), citing()).Canonical()))
	noError(t, drop(func(b []byte) (*counterfoil.DryRun, error) {
		return counterfoil.ParseDryRun(b, mustPolicy(t, citing()))
	})(canonical(record)))
	asDoc(inside(record, "plan", "steps", 0, "source", "provenance", "citations", 0))["uri"] = "https://data.example.test:443/incidents"
	_, err = counterfoil.ParseDryRun(canonical(record), mustPolicy(t, citing()))
	wantCode(t, err, counterfoil.CodeInvalidInput)

	wantCode(t, drop(counterfoil.ParsePlan)(canonical(cite(plan(), "https://data.example.test/%252e%252e/private"))), counterfoil.CodeInvalidInput)

	// The canonical form counts against the budget of the document as well.
	many := make([]string, 64)
	for i := range many {
		many[i] = incidents + "/" + strings.Repeat(";", 8000)
	}
	wantCode(t, drop(counterfoil.ParsePlan)(canonical(cite(plan(), many...))), counterfoil.CodeInvalidInput)
}

func TestPolicy_citations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(pol, src doc)
		uris []string
		code counterfoil.Code
	}{
		"allowed":                     {nil, []string{incidents}, ""},
		"below":                       {nil, []string{incidents + "/7/log"}, ""},
		"none":                        {nil, nil, ""},
		"written in another way":      {nil, []string{"https://data.example.test/%2569ncidents"}, ""},
		"another host":                {nil, []string{"https://evil.example.test/incidents"}, counterfoil.CodePolicyDenied},
		"another port":                {nil, []string{"https://data.example.test:8443/incidents"}, counterfoil.CodePolicyDenied},
		"another path":                {nil, []string{"https://data.example.test/private/opaque-value"}, counterfoil.CodePolicyDenied},
		"a path that begins so":       {nil, []string{incidents + "-private"}, counterfoil.CodePolicyDenied},
		"above":                       {nil, []string{"https://data.example.test/"}, counterfoil.CodePolicyDenied},
		"another case":                {nil, []string{"https://data.example.test/Incidents"}, counterfoil.CodePolicyDenied},
		"the second is another":       {nil, []string{incidents, "https://evil.example.test/incidents"}, counterfoil.CodePolicyDenied},
		"an encoded way out":          {nil, []string{incidents + "%2f..%2fprivate"}, counterfoil.CodeInvalidInput},
		"all paths":                   {func(_, s doc) { s["citationResourcePrefixes"] = list{"/"} }, []string{"https://data.example.test/x"}, ""},
		"below a directory":           {func(_, s doc) { s["citationResourcePrefixes"] = list{"/incidents/"} }, []string{incidents + "/7"}, ""},
		"a directory is not its name": {func(_, s doc) { s["citationResourcePrefixes"] = list{"/incidents/"} }, []string{incidents}, counterfoil.CodePolicyDenied},
		"a policy without origins": {func(_, s doc) {
			delete(s, "citationOrigins")
			delete(s, "citationResourcePrefixes")
		}, []string{incidents}, counterfoil.CodePolicyDenied},
		"one of one":  {func(p, _ doc) { p["maxCitationsPerSource"] = 1 }, []string{incidents}, ""},
		"two of one":  {func(p, _ doc) { p["maxCitationsPerSource"] = 1 }, []string{incidents, incidents}, counterfoil.CodePolicyDenied},
		"64 of 64":    {nil, repeat(incidents, 64), ""},
		"another IDN": {func(_, s doc) { s["citationOrigins"] = list{"https://xn--bcher-kva.example"} }, []string{"https://XN--bcher-kva.example/incidents"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pol := citing()
			if c.edit != nil {
				c.edit(pol, asDoc(inside(pol, "sources", "incidents")))
			}
			p, err := counterfoil.ParsePlan(canonical(cite(plan(), c.uris...)))
			if err == nil {
				_, err = p.DryRun(mustPolicy(t, pol), now())
			}
			if c.code == "" {
				noError(t, err)
				return
			}
			wantCode(t, err, c.code)
		})
	}
}

func repeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// What is cited may change until the execution, like all of an observation; the policy judges it again.
func TestAuthorize_citations(t *testing.T) {
	t.Parallel()
	l := newLabOf(t, cite(plan(), incidents), citing(), operation())
	l.bundle()
	for uri, code := range map[string]counterfoil.Code{
		"https://data.example.test/%69ncidents/8": "", "https://evil.example.test/incidents": counterfoil.CodePolicyDenied,
	} {
		l := newLabOf(t, cite(plan(), incidents), citing(), operation())
		now := sources()
		asDoc(inside(now, "sources", "incidents", "provenance"))["citations"] = list{doc{"uri": uri}}
		l.x.Context = mustContext(t, now)
		_, err := l.authorize()
		if counterfoil.CodeOf(err) != code {
			t.Errorf("%s: got %v", uri, err)
		}
	}
}

// A call's own policy allows what the call cites, and nothing beside it.
func TestCall_citations(t *testing.T) {
	t.Parallel()
	c := call(t)
	c.Source.Citations = []counterfoil.Citation{{URI: incidents + "/7"}, {URI: "https://a.example.test/x"}, {URI: incidents + "/7"}}
	pol, err := counterfoil.ParsePolicy(c.Policy(counterfoil.Digest{}, 1e9))
	noError(t, err)
	p, err := counterfoil.ParsePlan(c.Plan())
	noError(t, err)
	_, err = p.DryRun(pol, c.Source.ObservedAt)
	noError(t, err)
	c.Source.Citations = c.Source.Citations[:1]
	c.Source.Citations[0].URI = incidents + "/8"
	p, err = counterfoil.ParsePlan(c.Plan())
	noError(t, err)
	_, err = p.DryRun(pol, c.Source.ObservedAt)
	wantCode(t, err, counterfoil.CodePolicyDenied)
	c.Source.Citations[0].URI = "http://x"
	noError(t, drop(counterfoil.ParsePolicy)(c.Policy(counterfoil.Digest{}, 1e9)))
	wantCode(t, drop(counterfoil.ParsePlan)(c.Plan()), counterfoil.CodeInvalidInput)
}
