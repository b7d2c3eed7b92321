package callables

import (
	"context"
	"time"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/tool"
	"lilac/internal/serve/toolserver"
)

// attachTime limits a call: files may have to be fetched.
const attachTime = 2 * time.Minute

// Attachments returns the callables attachment.*, which do the same as the tools
// attachment_add and attachment_download.
func Attachments(a *builtin.Attachments) []toolserver.Callable {
	return []toolserver.Callable{
		toolserver.NewCallable(toolserver.Callable{
			ID: "attachment.add", Summary: "Gives files of the workspace to the people in the conversation", Changes: true, Time: attachTime,
			Description: "The files appear beside the answer, in their order. They are read, never run. The result names them but does not contain their bytes.",
			Examples:    []string{"tools attachment.add --paths=plot.png --paths=data.csv", "tools attachment.add --path=out.bin --filename=result.bin --mimeType=application/octet-stream"},
		}, func(ctx context.Context, caller toolserver.Caller, in builtin.AddInput) (any, error) {
			return a.Add(ctx, callOf(caller), in, caller.CWD)
		}),
		toolserver.NewCallable(toolserver.Callable{
			ID: "attachment.download", Summary: "Puts the files that people sent last into the workspace", Changes: true, Repeatable: true, Time: attachTime,
			Description: "Downloads all files of the newest message that has any. Each file is named by a hash of its content; a file that already exists is not written again.",
			Examples:    []string{"tools attachment.download --output=json", "tools attachment.download --downloadDir=in"},
		}, func(ctx context.Context, caller toolserver.Caller, in builtin.DownloadInput) (any, error) {
			return a.Download(ctx, callOf(caller), in, caller.CWD)
		}),
	}
}

// callOf returns the call of a tool that does the same as a call of a callable.
func callOf(caller toolserver.Caller) tool.Call {
	return tool.Call{RequestID: caller.RequestID, SessionID: caller.SessionID, Client: caller.Client, Workspace: caller.Workspace}
}
