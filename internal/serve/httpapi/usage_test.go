package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

func TestUsageRefusesWhatItCannotSumUp(t *testing.T) {
	w := newWorld(t)
	for query, field := range map[string]string{
		"days=0": "days", "days=367": "days", "days=x": "days", "days=-1": "days", "zone=Nowhere/At": "zone", "zone=../etc/passwd": "zone", "day=1": "day",
	} {
		code, body := w.call("GET", "/usage?"+query, "")
		if code != http.StatusBadRequest || !strings.Contains(body, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
	for _, query := range []string{"", "?days=1", "?days=366&zone=Europe/Berlin", "?zone=UTC"} {
		if code, body := w.call("GET", "/usage"+query, ""); code != http.StatusOK {
			t.Errorf("control: %s: %d %s", query, code, body)
		}
	}
}
