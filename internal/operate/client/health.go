package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/health"
)

// Health returns the state of the server's components, also if it is not ready.
func (c *Client) Health(ctx context.Context) (health.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var out health.Report
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/readyz", nil)
	if err != nil {
		return out, fault.Wrap(fault.Invalid, err, "%s is not the address of a server", c.base)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return out, c.unreachable(err)
	}
	defer res.Body.Close()
	out.Ready = res.StatusCode == http.StatusOK
	if !out.Ready && res.StatusCode != http.StatusServiceUnavailable {
		return out, refusal(c, res)
	}
	err = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&out)
	if err != nil && !out.Ready {
		return out, proxied(c, res)
	}
	if err != nil || len(out.Parts) == 0 && !out.Ready {
		return out, errors.Join(fault.New(fault.Internal, "%s did not return a health report.", c.base), err)
	}
	return out, nil
}

// OutageReason returns why no answer comes at present, or nil if the server is healthy.
func (c *Client) OutageReason(ctx context.Context) error {
	report, err := c.Health(ctx)
	if err != nil {
		return err
	}
	if why := report.Hindrance(); why != "" {
		return fault.New(fault.Unavailable, "%s", why)
	}
	return nil
}

// Groups lists the consumer groups and their backlog.
func (c *Client) Groups(ctx context.Context) ([]bus.GroupStatus, error) {
	var out struct{ Groups []bus.GroupStatus }
	err := c.Call(ctx, "GET", "/bus/groups", nil, &out)
	return out.Groups, err
}
