package httpapi

// messageSchema describes a ModelMessage with Lilac's additional fields.
const messageSchema = `{
 "description": "An AI SDK ModelMessage with additional fields.",
 "type": "object",
 "required": ["id", "requestId", "createdAt", "role", "content"],
 "properties": {
  "id": {"type": "string"},
  "requestId": {"type": "string"},
  "createdAt": {"type": "integer"},
  "role": {"type": "string", "enum": ["system", "user", "assistant", "tool"]},
  "content": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
  "html": {"type": "string", "description": "The rendered text."},
  "damaged": {"type": "boolean", "description": "The stored message is corrupt; the content says so."}
 }
}`

const callablesNote = `"description":"Ids of callables, or prefixes such as surface.*"`

// notes hold what a Go type cannot say about a property, as members of its JSON
// schema: by the name of the type (of a component, or of the Go type), then by
// property. The property "" is the schema itself.
var notes = map[string]map[string]string{
	"Attachment": {
		"":           `"description":"Has either text or dataBase64; at most 10 MiB."`,
		"filename":   `"maxLength":255`,
		"dataBase64": `"contentEncoding":"base64"`,
	},
	"File": {"fileId": `"description":"Identifies the file within its request."`, "url": `"description":"The path of the bytes."`},
	"Group": {
		"pending":  `"description":"Number of events that are delivered but not committed."`,
		"backlog":  `"description":"Number of events that are not delivered yet."`,
		"oldestMs": `"description":"Age of the oldest event that is not committed."`,
		"active":   `"description":"This server has a consumer of the group."`,
		"silentMs": `"description":"Time without a consumer."`,
		"silent":   `"description":"The group is abandoned. Start its consumer or drop the group."`,
	},
	"NewEvent": {
		"":          `"required":["type"]`,
		"id":        `"description":"Default: a new id."`,
		"type":      `"pattern":"^[a-z0-9_.]{1,64}$"`,
		"timestamp": `"description":"Default: now."`,
		"metadata":  `"properties":{"trigger_session_id":{"type":"string"},"source":{"type":"string"}}`,
	},
	"HealthPart": {"needed": `"description":"While this part fails, requests are not answered."`},
	"Pause": {
		"":       `"description":"The question of a paused request. Without a kind, it is about a limit."`,
		"kind":   `"enum":["approval","question"],"description":"Why the request waits: a call needs an approval, or the agent asks something."`,
		"number": `"description":"Counts the pauses of the request from 1."`,
		"limit":  `"description":"request, session or day, followed by steps, tokens, money or time.","examples":["day.money"]`,
		"used":   `"description":"Steps, tokens, millionths of a US dollar, or milliseconds."`,
		"more":   `"description":"The amount by which the answer continue raises the limit."`,
		"until":  `"description":"When the request ends (at a limit) or continues without an answer."`,
		"day":    `"description":"The day of a daily limit."`,
	},
	"Prompt": {
		"content":     `"minLength":1,"maxLength":1048576`,
		"queue":       `"default":"prompt"`,
		"attachments": `"maxItems":20`,
	},
	"Request": {
		"state":       `"description":"A request is damaged if its stored row is corrupt. It then has only an id and a detail."`,
		"errorKind":   `"description":"The kind of error of a failed request."`,
		"wokenBy":     `"description":"The id of the event that started the request."`,
		"asked":       `"description":"The beginning of the message that started the request, if a person sent it."`,
		"cachedShare": `"description":"The share of the input tokens that was read from the provider's cache, between 0 and 1."`,
	},
	"Session": {"state": `"enum":["idle","running"]`, "activeRequest": `"description":"The id of the running request."`},
	"Story":   {"messages": `"description":"The messages of the request, in order. The first one started it."`},
	"Task": {
		"key":          `"description":"Identifies the act that started the task."`,
		"sessionId":    `"description":"The session that is notified of the end."`,
		"requestId":    `"description":"The request that started the task."`,
		"childSession": `"description":"The session of the sub-agent."`,
		"reason":       `"description":"Why the task did not complete."`,
		"result":       `"description":"The end of a command's output, or the answer of a sub-agent."`,
		"printed":      `"description":"Size of a command's output in bytes."`,
	},
	"Usage": {"costMicros": `"description":"Millionths of a US dollar."`},
	"Workflow": {
		"state":        `"enum":["","waiting","resolved","failed","cancelled","damaged"],"description":"Empty if commands of the workflow arrived before the one that creates it."`,
		"detail":       `"description":"Why the workflow failed or was cancelled."`,
		"origin":       `"description":"The request that created the workflow."`,
		"resumeTarget": `"description":"Where the agent resumes."`,
		"tasks":        `"type":["array","null"]`,
		"due":          `"description":"When the next timer of the workflow is due."`,
	},

	"newSession": {
		"title":  `"maxLength":200`,
		"client": `"pattern":"` + clientPattern + `","default":"web","description":"The client that talks in this conversation. The names discord, env, sub and wf are reserved."`,
	},
	"newTitle":       {"title": `"minLength":1,"maxLength":200`},
	"cancelBody":     {"reason": `"maxLength":500`},
	"cancelWorkflow": {"reason": `"maxLength":500`},
	"renderBody":     {"text": `"maxLength":1048576`},
	"newToolToken": {
		"name":      `"pattern":"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"`,
		"callables": callablesNote,
		"expires":   `"default":"90d","description":"Lifetime, such as 36h or 30d, or never."`,
	},
	"createdToolToken": {"callables": callablesNote},
	"messageList": {
		"messages": `"items":{"$ref":"#/components/schemas/Message"}`,
		"files":    `"description":"The files of the requests of these messages and of running requests."`,
		"cursor":   `"description":"Pass it to /events to continue, with the output of running requests from its beginning. Empty while the bus is unavailable."`,
		"running":  `"description":"The requests that run, or began while this was read: /events has their output from its beginning, after the cursor."`,
		"waiting":  `"description":"Why there is no cursor."`,
	},
	"pauseAnswer": {"pause": `"description":"The number of the question that is answered."`},
}
