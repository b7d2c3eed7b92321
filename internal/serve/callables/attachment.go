package callables

import (
	"context"
	"encoding/json"
	"time"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/tool"
	"lilac/internal/serve/toolserver"
)

// attachTime bounds a call: files may have to be fetched.
const attachTime = 2 * time.Minute

// Attachments returns the callables attachment.*, which are the tools
// attachment_add and attachment_download.
func Attachments(a *builtin.Attachments) []toolserver.Callable {
	return []toolserver.Callable{
		{
			ID: "attachment.add", Summary: "Gives files of the workspace to the people in the conversation", Changes: true, Time: attachTime,
			Description: "The files appear beside the answer, in their order. They are read, never run; the result names them and holds no bytes.",
			Examples:    []string{"tools attachment.add --paths=plot.png --paths=data.csv", "tools attachment.add --path=out.bin --filename=result.bin --mimeType=application/octet-stream"},
			Schema:      builtin.AddSchema,
			Run: func(ctx context.Context, caller toolserver.Caller, input json.RawMessage) (any, error) {
				return a.Add(ctx, callOf(caller, input), caller.CWD)
			},
		},
		{
			ID: "attachment.download", Summary: "Puts the files that people sent last into the workspace", Changes: true, Repeatable: true, Time: attachTime,
			Description: "It takes all files of the newest message that came with any. Each is named by a hash of its content; what is there already is not written again.",
			Examples:    []string{"tools attachment.download --output=json", "tools attachment.download --downloadDir=in"},
			Schema:      builtin.DownloadSchema,
			Run: func(ctx context.Context, caller toolserver.Caller, input json.RawMessage) (any, error) {
				return a.Download(ctx, callOf(caller, input), caller.CWD)
			},
		},
	}
}

// callOf is a call as the tools know one.
func callOf(caller toolserver.Caller, input json.RawMessage) tool.Call {
	return tool.Call{Input: input, RequestID: caller.RequestID, SessionID: caller.SessionID, Client: caller.Client}
}
