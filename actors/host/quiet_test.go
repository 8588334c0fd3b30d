package host

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestSystemIsQuiet: what the actor system logs at info is logged at debug; the rest keeps
// its level.
func TestSystemIsQuiet(t *testing.T) {
	for level, starts := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var out bytes.Buffer
		system := NewSystem(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))
		system.Shutdown()
		if got := strings.Contains(out.String(), "level=DEBUG msg=\"actor system started\""); got != starts {
			t.Errorf("at %s: %q", level, out.String())
		}
		if strings.Contains(out.String(), "level=INFO") {
			t.Errorf("at %s: logged at info: %q", level, out.String())
		}
		out.Reset()
		system.Logger().With("a", 1).WithGroup("g").Info("hidden")
		system.Logger().Error("shown")
		if got := strings.Contains(out.String(), "hidden"); got != starts || !strings.Contains(out.String(), "level=ERROR msg=shown") {
			t.Errorf("at %s: %q", level, out.String())
		}
	}
}
