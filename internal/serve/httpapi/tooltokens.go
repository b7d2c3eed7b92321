package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Operators makes and revokes tokens for the tool server; see
// [toolserver.Operators].
type Operators interface {
	Create(ctx context.Context, name string, callables []string, life string) (token string, err error)
	List(ctx context.Context) ([]toolserver.OperatorToken, error)
	Revoke(ctx context.Context, name string) error
	Calls(ctx context.Context, limit int, before int64) ([]toolserver.OperatorCall, error)
}

var errNoOperators = fault.New(fault.Unavailable, "This server has no tool server.")

// maxToolToken bounds the description of a token.
const maxToolToken = 64 << 10

// madeToken is the answer to a new token, and the only one that holds it.
type madeToken struct {
	Name      string   `json:"name"`
	Callables []string `json:"callables"`
	Token     string   `json:"token"`
}

func (a *api) createToolToken(w http.ResponseWriter, r *http.Request) error {
	if a.Operators == nil {
		return errNoOperators
	}
	raw, err := readBody(w, r, maxToolToken)
	if err != nil {
		return err
	}
	var in struct {
		Name      string   `json:"name"`
		Callables []string `json:"callables"`
		Expires   string   `json:"expires"`
	}
	if err := decode(raw, &in, false); err != nil {
		return err
	}
	token, err := a.Operators.Create(r.Context(), in.Name, in.Callables, in.Expires)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, madeToken{Name: in.Name, Callables: in.Callables, Token: token})
}

func (a *api) listToolTokens(w http.ResponseWriter, r *http.Request) error {
	if a.Operators == nil {
		return errNoOperators
	}
	tokens, err := a.Operators.List(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"tokens": append([]toolserver.OperatorToken{}, tokens...)})
}

func (a *api) revokeToolToken(w http.ResponseWriter, r *http.Request) error {
	if a.Operators == nil {
		return errNoOperators
	}
	if err := a.Operators.Revoke(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) listToolCalls(w http.ResponseWriter, r *http.Request) error {
	if a.Operators == nil {
		return errNoOperators
	}
	if err := onlyQuery(r, "limit", "before"); err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	before := int64(0)
	if raw := r.URL.Query().Get("before"); raw != "" {
		if before, err = strconv.ParseInt(raw, 10, 64); err != nil || before < 1 {
			return fault.InvalidField("before", "before has to be the id of a call, not %q.", raw)
		}
	}
	calls, err := a.Operators.Calls(r.Context(), limit, before)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"calls": append([]toolserver.OperatorCall{}, calls...)})
}
