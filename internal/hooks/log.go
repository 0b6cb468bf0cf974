package hooks

import (
	"context"
	"log/slog"

	"github.com/counterfoil/counterfoil"
)

// Log makes the handler "log": a record of each event, without payloads, at a level that its configuration names
// ("level": debug, info or warn; info if there is none).
func Log(to *slog.Logger) Maker {
	return func(config map[string]string) (Handler, error) {
		level := slog.LevelInfo
		for k, v := range config {
			if k != "level" || level.UnmarshalText([]byte(v)) != nil {
				return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the handler log has one member of configuration, a level"}
			}
		}
		return func(ctx context.Context, e Event) (Verdict, error) {
			to.LogAttrs(ctx, level, "hook", slog.String("phase", string(e.Phase)), slog.String("tenant", e.Tenant), slog.String("id", e.ID),
				slog.String("principal", e.Principal), slog.String("method", e.Method), slog.String("path", e.Path), slog.Int("status", e.Status),
				slog.String("tool", e.Tool), slog.String("operation", e.Operation), slog.String("outcome", e.Outcome))
			return Verdict{Action: Pass}, nil
		}, nil
	}
}
