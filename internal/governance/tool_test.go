package governance_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
)

// registries returns a registry for each server with a profile, its release known.
func registries(t *testing.T) map[string]*governance.Registry {
	t.Helper()
	out := map[string]*governance.Registry{}
	for name, l := range servers() {
		out[name] = registry(t, governance.Source{Launch: l, Definitions: readTools(t, name)})
	}
	return out
}

func TestTool_Effect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		server, tool, args string
		want               counterfoil.Effect
		why                string
	}{
		{"filesystem", "read_file", `{"path":"/data/a"}`, counterfoil.EffectRead, "profile of @modelcontextprotocol/server-filesystem 2026.8.31"},
		{"filesystem", "read_file", `{"head":1,"path":"/data/a","tail":2}`, counterfoil.EffectRead, ""},
		{"filesystem", "read_file", `{"force":true,"path":"/data/a"}`, counterfoil.EffectDestructive, "the profile doesn't know the argument /force"},
		{"filesystem", "read_file", `{"Path":"/data/a"}`, counterfoil.EffectDestructive, "the profile doesn't know the argument /Path"},
		{"filesystem", "read_file", `{"path":{"a":"b"}}`, counterfoil.EffectDestructive, "the profile doesn't know the argument /path/a"},
		{"filesystem", "read_file", `{"path":["/data/a"]}`, counterfoil.EffectDestructive, "the profile doesn't know the argument /path/*"},
		{"filesystem", "read_multiple_files", `{"paths":["/data/a","/data/b"]}`, counterfoil.EffectRead, ""},
		{"filesystem", "read_multiple_files", `{"paths":[]}`, counterfoil.EffectRead, ""},
		{"filesystem", "read_multiple_files", `{"paths":"/etc/passwd"}`, counterfoil.EffectDestructive, "the profile doesn't know the argument /paths"},
		{"filesystem", "read_multiple_files", `{"paths":{"*":"/etc/passwd"}}`, counterfoil.EffectDestructive, "the profile doesn't know the argument /paths/*"},
		{"filesystem", "read_multiple_files", `{"paths":[["/data/a"]]}`, counterfoil.EffectDestructive, "the profile doesn't know the argument /paths/*/*"},
		{"filesystem", "list_allowed_directories", ``, counterfoil.EffectRead, ""},
		{"filesystem", "list_allowed_directories", `{"x":null}`, counterfoil.EffectDestructive, "the profile doesn't know the argument /x"},
		{"filesystem", "edit_file", `{"edits":[{"newText":"b","oldText":"a"}],"path":"/data/a"}`, counterfoil.EffectMutation, ""},
		{
			"filesystem", "edit_file", `{"edits":[{"newText":"b","oldText":"a","run":"x"}],"path":"/data/a"}`,
			counterfoil.EffectDestructive, "the profile doesn't know the argument /edits/*/run",
		},
		{"filesystem", "write_file", `{"content":"x","path":"/data/a"}`, counterfoil.EffectMutation, ""},
		{"filesystem", "move_file", `{"destination":"/data/b","source":"/data/a"}`, counterfoil.EffectMutation, ""},
		{"filesystem", "read_file", `not json`, counterfoil.EffectDestructive, "the arguments aren't strict JSON"},
		{"filesystem", "read_file", `{"path":"a","path":"b"}`, counterfoil.EffectDestructive, "the arguments aren't strict JSON"},
		{"filesystem", "read_file", `"x"`, counterfoil.EffectDestructive, "the profile doesn't know the argument "},
		{"memory", "read_graph", `{}`, counterfoil.EffectRead, ""},
		{"memory", "delete_entities", `{"entityNames":["a"]}`, counterfoil.EffectDestructive, "profile of @modelcontextprotocol/server-memory 2026.8.31"},
		{"memory", "create_entities", `{"entities":[{"entityType":"a","name":"b","observations":["c"]}]}`, counterfoil.EffectMutation, ""},
		{"everything", "echo", `{"message":"x"}`, counterfoil.EffectRead, ""},
		{"everything", "get-env", `{}`, counterfoil.EffectShare, ""},
		{"sample", "delete_note", `{"path":"a"}`, counterfoil.EffectDestructive, ""},
		{"sample", "write_note", `{"path":"a","text":"b"}`, counterfoil.EffectMutation, ""},
	}
	known := registries(t)
	for _, tt := range tests {
		got, why := lookup(t, known[tt.server], tt.tool).Effect([]byte(tt.args))
		if got != tt.want || why == "" || tt.why != "" && why != tt.why {
			t.Errorf("%s %s = %s (%s), want %s (%s)", tt.tool, tt.args, got, why, tt.want, tt.why)
		}
	}
}

func TestTool_Reach(t *testing.T) {
	t.Parallel()
	tests := []struct {
		server, tool, args string
		want               string // "r /pointer /path, w …", or a code and a pointer
	}{
		{"filesystem", "read_file", `{"path":"/data/a"}`, "r /path /data/a"},
		{"filesystem", "read_file", `{"path":"/data/"}`, "r /path /data"},
		{"filesystem", "read_file", `{"path":"/home/a/work/x"}`, "r /path /home/a/work/x"},
		{"filesystem", "read_file", `{"path":"/home/a/x"}`, "policy-denied /path"},
		{"filesystem", "read_file", `{"path":"/data-evil/x"}`, "policy-denied /path"},
		{"filesystem", "read_file", `{"path":"/DATA/x"}`, "policy-denied /path"},
		{"filesystem", "read_file", `{"path":"/data/../etc/passwd"}`, "invalid-input /path"},
		{"filesystem", "read_file", `{"path":"/data/./x"}`, "invalid-input /path"},
		{"filesystem", "read_file", `{"path":"a"}`, "invalid-input /path"},
		{"filesystem", "read_file", `{"path":"~/a"}`, "invalid-input /path"},
		{"filesystem", "read_file", `{"path":"/data/a\u0000"}`, "invalid-input /path"},
		{"filesystem", "read_file", `{"path":"C:\\data"}`, "invalid-input /path"},
		{"filesystem", "read_file", `{"path":7}`, "invalid-input /path"},
		{"filesystem", "read_file", `{}`, ""},
		{"filesystem", "read_file", ``, ""},
		{"filesystem", "read_file", `{"path":`, "invalid-input "},
		{"filesystem", "read_multiple_files", `{"paths":["/data/a","/data/b"]}`, "r /paths/0 /data/a, r /paths/1 /data/b"},
		{"filesystem", "read_multiple_files", `{"paths":["/data/a","/etc/passwd"]}`, "policy-denied /paths/1"},
		{"filesystem", "write_file", `{"content":"/etc/passwd","path":"/data/a"}`, "w /path /data/a"},
		{"filesystem", "edit_file", `{"edits":[],"path":"/data/a"}`, "r /path /data/a, w /path /data/a"},
		{"filesystem", "move_file", `{"destination":"/data/b","source":"/data/a"}`, "r /source /data/a, w /source /data/a, w /destination /data/b"},
		{"filesystem", "move_file", `{"destination":"/etc/b","source":"/data/a"}`, "policy-denied /destination"},
		{"filesystem", "list_allowed_directories", `{}`, ""},
		{"memory", "search_nodes", `{"query":"/etc/passwd"}`, ""},
		{"sample", "list_notes", ``, ""},
		{"sample", "read_note", `{"path":"a/b.txt"}`, "r /path /notes/a/b.txt"},
		{"sample", "write_note", `{"path":"a","text":"x"}`, "w /path /notes/a"},
		{"sample", "delete_note", `{"path":"a"}`, "w /path /notes/a"},
		{"sample", "read_note", `{"path":"/notes/a"}`, "invalid-input /path"},
		{"sample", "read_note", `{"path":"../a"}`, "invalid-input /path"},
		{"sample", "read_note", `{"path":"a/../../b"}`, "invalid-input /path"},
		{"sample", "read_note", `{"path":""}`, "invalid-input /path"},
		{"sample", "read_note", `{"path":"."}`, "invalid-input /path"},
	}
	known := registries(t)
	for _, tt := range tests {
		if got := reachOf(t, lookup(t, known[tt.server], tt.tool), tt.args); got != tt.want {
			t.Errorf("%s %s reaches %q, want %q", tt.tool, tt.args, got, tt.want)
		}
	}
}

func reachOf(t *testing.T, tool *governance.Tool, args string) string {
	t.Helper()
	touches, err := tool.Reach([]byte(args))
	if err != nil {
		e, ok := errors.AsType[*counterfoil.Error](err)
		if !ok || touches != nil || e.Msg == "" {
			t.Fatalf("%v, %v", touches, err)
		}
		return string(e.Code) + " " + e.Path
	}
	var parts []string
	for _, touch := range touches {
		parts = append(parts, map[bool]string{true: "w ", false: "r "}[touch.Write]+touch.Pointer+" "+touch.Path.String())
	}
	return strings.Join(parts, ", ")
}

// TestTool_Reach_launch: the directories of the launch command are the allowance, for releases that aren't known too.
func TestTool_Reach_launch(t *testing.T) {
	t.Parallel()
	const args = `{"path":"/private/tmp/data/x"}`
	for argv, want := range map[string]string{
		"npx @modelcontextprotocol/server-filesystem /tmp/data":           "r /path /private/tmp/data/x",
		"npx @modelcontextprotocol/server-filesystem /private":            "r /path /private/tmp/data/x",
		"npx @modelcontextprotocol/server-filesystem /private/tmp/*":      "policy-denied /path",
		"npx @modelcontextprotocol/server-filesystem":                     "policy-denied /path",
		"npx @modelcontextprotocol/server-filesystem ~":                   "policy-denied /path",
		"npx @modelcontextprotocol/server-filesystem --private":           "policy-denied /path",
		"npx @modelcontextprotocol/server-filesystem ../../..":            "r /path /private/tmp/data/x",
		"docker run -i mcp/filesystem /nowhere":                           "", // the paths are the container's
		"npx -p @modelcontextprotocol/server-filesystem sh /private":      "",
		"npx -p @modelcontextprotocol/server-filesystem@2026.8.31 x /tmp": "",
	} {
		l := governance.Identify(strings.Fields(argv), "/home/a/project", disk())
		r := registry(t, governance.Source{Launch: l, Definitions: readTools(t, "filesystem")})
		if got := reachOf(t, lookup(t, r, "read_file"), args); got != want {
			t.Errorf("%s: %q, want %q", argv, got, want)
		}
	}
}
