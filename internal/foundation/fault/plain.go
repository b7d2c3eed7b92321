package fault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
)

// Plain returns the text of an error for people: like its Error method, but without the types,
// functions, and system calls of Go, and without names that the message has already.
func Plain(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Err == nil {
			return e.Message
		}
		cause := Plain(e.Err)
		if about, why, ok := strings.Cut(cause, ": "); ok && strings.Contains(e.Message, about) {
			cause = why
		}
		return e.because(cause)
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if plain := plainCause(cause); plain != "" {
			return strings.Replace(err.Error(), cause.Error(), plain, 1)
		}
	}
	return err.Error()
}

// plainCause returns the text of an error of the standard library for people, or "" for other errors.
func plainCause(err error) string {
	switch e := err.(type) {
	case *url.Error, *os.SyscallError:
		return Plain(errors.Unwrap(err))
	case *net.OpError:
		cause := Plain(e.Err)
		if e.Addr != nil {
			cause = e.Addr.String() + ": " + cause
		}
		return cause
	case *strconv.NumError:
		if e.Func == "ParseBool" {
			return "it is neither true nor false"
		}
		return "it is not a number, or too large"
	case *fs.PathError:
		return e.Path + ": " + Plain(e.Err)
	case *json.UnmarshalTypeError:
		return WrongType(cmp.Or(e.Field, "it"), e)
	case *json.SyntaxError:
		if !strings.HasPrefix(e.Error(), "unexpected end") {
			return fmt.Sprintf("it is not valid JSON (at byte %d)", e.Offset)
		}
		err = io.EOF
	}
	switch err {
	case io.EOF, io.ErrUnexpectedEOF:
		return "it ends too early"
	case context.DeadlineExceeded:
		return "it took too long"
	}
	return ""
}

// WrongType says which type of JSON a field must have, and which it has.
func WrongType(field string, e *json.UnmarshalTypeError) string {
	return field + " must be of type " + jsonType(e.Type.Kind()) + ", not " + e.Value
}

// jsonType names a kind of Go type for people who write JSON.
func jsonType(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return "whole number"
}
