package redisbus

import "github.com/redis/rueidis"

// The keys below the prefix are "claim" (a hash: the store that owns the prefix, its
// epoch and its counters), "topics" (a set: the topics that Trim handles), and for each
// topic "s:" (its stream) and "m:" (a hash: its metadata):
//
//	t  all entries up to this one were removed
//
// Topics other than outputs also have "i:", a hash from event id to entry id, and in "m:"
//
//	n  number of events that it ever had    l  the newest entry
//
// An entry has two fields: "i" is the event's id, "e" is the result of sealed.

// Error codes of the scripts. The code is the first word of the error.
const (
	// refusedStore: the prefix belongs to another store. The store's id follows.
	refusedStore = "LILACSTORE"
	// refusedEpoch: another epoch holds the prefix. The epoch follows, or nothing
	// if Redis has no claim.
	refusedEpoch = "LILACEPOCH"
	// refusedLost: Redis lost batches. The number of the newest one that it has follows.
	refusedLost = "LILACLOST"
	// refusedStale: the caller and Redis disagree about whether an output has a stream.
	refusedStale = "LILACSTALE"
)

// rightsScript returns the commands of the engine that the server does not have, or
// that the user may not run on a key of the prefix.
//
//	ARGV key
var rightsScript = rueidis.NewLuaScript(`
local missing, key = {}, ARGV[1]
if not redis.acl_check_cmd then return missing end
for _, command in ipairs({
  {'EVAL', 'return 1', '0'}, {'EXISTS', key}, {'HDEL', key, 'f'}, {'HGET', key, 'f'}, {'HLEN', key}, {'HMGET', key, 'f'}, {'HSET', key, 'f', 'v'},
  {'PEXPIRE', key, '1'}, {'PTTL', key}, {'SADD', key, 'm'}, {'SCARD', key}, {'SMEMBERS', key}, {'XADD', key, '*', 'f', 'v'}, {'XLEN', key},
  {'XRANGE', key, '-', '+'}, {'XREVRANGE', key, '+', '-'}, {'XTRIM', key, 'MINID', '1'},
}) do
  local known, may = pcall(redis.acl_check_cmd, unpack(command))
  if not known or not may then missing[#missing+1] = command[1] end
end
return missing
`)

// claimScript claims the prefix. It returns the newest batch, or -1 if Redis had no
// claim of this store.
//
//	KEYS claim   ARGV store, epoch
var claimScript = rueidis.NewLuaScript(`
local c = redis.call('HMGET', KEYS[1], 'store', 'epoch', 'batch')
if c[1] and c[1] ~= ARGV[1] then return redis.error_reply('LILACSTORE ' .. c[1]) end
if c[2] and tonumber(c[2]) >= tonumber(ARGV[2]) then return redis.error_reply('LILACEPOCH ' .. c[2]) end
redis.call('HSET', KEYS[1], 'store', ARGV[1], 'epoch', ARGV[2], 'step', '0')
if not c[3] then redis.call('HSET', KEYS[1], 'batch', '0') end
return c[3] and tonumber(c[3]) or -1
`)

// appendScript appends events. The field "batch" counts batches; the field "step"
// counts the steps of a recovery.
//
// The caller assigns the positions of output events (see idIndex). In a careful batch,
// Redis may already have some of them at these positions, because the reply to an
// earlier attempt was lost, or because the batch is part of a recovery. For other
// batches, the script first checks that the outputs that should have a stream have one,
// and that the others have none. If the check fails, it appends nothing.
//
// Other topics have an index of their ids: an event whose id is in the index is not
// added again. The script assigns the positions, except in a recovery. It reads and
// writes the index for up to 500 events at once, and formats only the first position of
// a topic: each makes the script cheaper; both together save a third of its time.
//
// It returns the number of events that it left out because their stream already has
// newer entries. Then follow, for each topic with an index, the number of events that
// it had before, the number of exceptions, and the exceptions: the index (from 0) of an
// event that the topic already had, and its position.
//
//	KEYS claim, topics, the streams of existing outputs that get one event, those of existing outputs that get more, those of
//	     other outputs, the metas of other outputs, the streams whose expiry is extended, then stream, ids and meta of each
//	     topic with an index
//	ARGV epoch, field, least, number, the number of outputs of each of these three kinds, the number of streams to extend,
//	     careful ("1" or ""), age of a stream (ms), age of a meta (ms),
//	     then, for each existing output that gets one event: position, id and entry;
//	     for each existing output that gets more: position of the first event, number of events, id and entry of each;
//	     for each other output: the last lost position or "", number of events, position, id and entry of each;
//	     for each topic with an index: name, number of events, the id of each, the entry of each, and in a recovery the
//	     position of each
var appendScript = rueidis.NewLuaScript(`
local call, epoch, field = redis.call, ARGV[1], ARGV[2]
local c = call('HMGET', KEYS[1], 'epoch', field)
if c[1] ~= epoch then return redis.error_reply('LILACEPOCH ' .. (c[1] or '')) end
local have = tonumber(c[2])
if have < tonumber(ARGV[3]) then return redis.error_reply('LILACLOST ' .. c[2]) end
local single, several, others, refreshed, careful = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == '1'
local known = single + several
local first = 3 + known
-- tostring would write large numbers with an exponent
local function number(n) return string.format('%.0f', n) end
local function existing(from, to)
  local n = 0
  for k = from, to, 500 do n = n + call('EXISTS', unpack(KEYS, k, math.min(k + 499, to))) end
  return n
end
if not careful and (existing(3, first - 1) < known or existing(first, first + others - 1) > 0) then
  return redis.error_reply('LILACSTALE')
end
local restoring, following, at, left = field == 'step', epoch .. '-*', 12, 0
for key = 3, 2 + single do
  call('XADD', KEYS[key], ARGV[at], 'i', ARGV[at+1], 'e', ARGV[at+2])
  at = at + 3
end
for key = 3 + single, first - 1 do
  local stream, place, last = KEYS[key], ARGV[at], at + 1 + 2 * ARGV[at+1]
  for i = at + 2, last, 2 do
    call('XADD', stream, place, 'i', ARGV[i], 'e', ARGV[i+1])
    place = following -- Redis assigns the next position
  end
  at = last + 1
end
for key = first, first + others - 1 do
  local stream, meta, last, newest = KEYS[key], KEYS[key+others], at + 1 + 3 * ARGV[at+1], nil
  local function gone(place)
    call('HSET', meta, 't', place)
    call('PEXPIRE', meta, ARGV[11])
  end
  if careful then newest = call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1] end
  if newest then
    newest = tonumber(string.match(newest[1], '-(%d+)$'))
  elseif ARGV[at] ~= '' then
    gone(ARGV[at])
  end
  for i = at + 2, last, 3 do
    local added = redis.pcall('XADD', stream, ARGV[i], 'i', ARGV[i+1], 'e', ARGV[i+2])
    if type(added) == 'table' then
      if not careful or not string.find(added.err, 'equal or smaller', 1, true) then return added end
      local entry = call('XRANGE', stream, ARGV[i], ARGV[i])[1]
      if not entry or entry[2][2] ~= ARGV[i+1] then left = left + 1 end
    elseif careful then -- a gap before the entry: Redis lost the events in it
      local e, n = string.match(added, '^(%d+)-(%d+)$')
      if newest and tonumber(n) > newest + 1 then gone(e .. '-' .. number(tonumber(n) - 1)) end
      newest = tonumber(n)
    end
  end
  call('PEXPIRE', stream, ARGV[10])
  at = last + 1
end
first = first + 2 * others
for key = first, first + refreshed - 1 do call('PEXPIRE', KEYS[key], ARGV[10]) end
local out = {left}
for key = first + refreshed, #KEYS, 3 do
  local stream, ids, meta = KEYS[key], KEYS[key+1], KEYS[key+2]
  local v = call('HMGET', meta, 'n', 'l')
  local n, last, fresh, failure = tonumber(v[1] or '0'), v[2], not v[1], nil
  if fresh then
    call('SADD', KEYS[2], ARGV[at])
    local newest = call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
    if newest then -- Redis evicted the metadata of the topic
      n, last, fresh = tonumber(string.match(newest[1], '-(%d+)$')), newest[1], false
    end
  end
  local count = tonumber(ARGV[at+1])
  local id, entry, place = at + 1, at + 1 + count, at + 1 + 2 * count
  at = id + (restoring and 3 or 2) * count + 1
  local reply, exceptions, changed, seen = #out + 1, 0, false, {}
  out[reply] = n
  out[reply+1] = 0
  local ahead -- lets Redis assign the next position; nil for the first event
  for from = 1, count, 500 do
    local to = math.min(from + 499, count)
    local held, added, a = call('HMGET', ids, unpack(ARGV, id + from, id + to)), {}, 0
    for i = from, to do
      local e = ARGV[id+i]
      local pos = held[i-from+1] or seen[e]
      if not pos then
        local m = n + 1
        if restoring then
          pos = ARGV[place+i]
          m = tonumber(string.match(pos, '-(%d+)$'))
        else
          pos = ahead or epoch .. '-' .. number(m)
          ahead = following
        end
        pos = redis.pcall('XADD', stream, pos, 'i', e, 'e', ARGV[entry+i])
        if type(pos) == 'table' then
          if not restoring or not string.find(pos.err, 'equal or smaller', 1, true) then
            failure = pos
            break
          end
          out[1] = out[1] + 1
        else
          if fresh then
            call('HSET', meta, 't', string.match(pos, '^(%d+)-') .. '-' .. number(m - 1))
            fresh = false
          end
          if m > n then n = m end
          last, changed, seen[e] = pos, true, pos
          added[a+1], added[a+2] = e, pos
          a = a + 2
        end
      else
        exceptions = exceptions + 1
        out[#out+1] = i - 1
        out[#out+1] = pos
      end
    end
    if a > 0 then call('HSET', ids, unpack(added)) end
    if failure then break end
  end
  out[reply+1] = exceptions
  if changed then call('HSET', meta, 'n', number(n), 'l', last) end
  if failure then return failure end
end
if tonumber(ARGV[4]) > have then call('HSET', KEYS[1], field, ARGV[4]) end
return out
`)

// idsScript returns the newest position of a stream, even if its entry was removed. It
// is "" if there is no stream, or if the user may not run XINFO. Then follow the
// position and the event id of each entry; the id is "" for a foreign entry. The script
// fails if Redis lost batches, because then its entries are incomplete.
//
//	KEYS claim, stream   ARGV epoch, least, from, limit
var idsScript = rueidis.NewLuaScript(`
local c = redis.call('HMGET', KEYS[1], 'epoch', 'batch')
if c[1] ~= ARGV[1] then return redis.error_reply('LILACEPOCH ' .. (c[1] or '')) end
if tonumber(c[2]) < tonumber(ARGV[2]) then return redis.error_reply('LILACLOST ' .. c[2]) end
local info, out = redis.pcall('XINFO', 'STREAM', KEYS[2]), {''}
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then out[1] = info[i+1] end
end
local entries = redis.call('XRANGE', KEYS[2], ARGV[3], '+', 'COUNT', ARGV[4])
for i = 1, #entries do
  local f = entries[i][2]
  out[2*i], out[2*i+1] = entries[i][1], f[1] == 'i' and f[2] or ''
end
return out
`)

// goneScript records that all entries up to a position are gone. If Redis has no
// entries after it, it becomes the newest position.
//
//	KEYS claim, meta   ARGV epoch, position, its count
var goneScript = rueidis.NewLuaScript(`
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch ~= ARGV[1] then return redis.error_reply('LILACEPOCH ' .. (epoch or '')) end
redis.call('HSET', KEYS[2], 't', ARGV[2])
if tonumber(redis.call('HGET', KEYS[2], 'n')) < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[2], 'n', ARGV[3], 'l', ARGV[2])
end
return 1
`)

// restoredScript ends a recovery and sets the number of the newest batch.
//
//	KEYS claim   ARGV epoch, steps, batch
var restoredScript = rueidis.NewLuaScript(`
local c = redis.call('HMGET', KEYS[1], 'epoch', 'step')
if c[1] ~= ARGV[1] then return redis.error_reply('LILACEPOCH ' .. (c[1] or '')) end
if c[2] ~= ARGV[2] then return redis.error_reply('LILACLOST ' .. (c[2] or '')) end
redis.call('HSET', KEYS[1], 'batch', ARGV[3])
return 1
`)

// trimScript removes the oldest entries of a topic: up to the floor that every group
// has committed, and only entries that are old enough. It checks at most limit entries.
// It returns the number of removed entries and the last of them.
//
//	KEYS claim, stream, ids, meta   ARGV epoch, floor, appended before (ms), limit
var trimScript = rueidis.NewLuaScript(`
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch ~= ARGV[1] then return redis.error_reply('LILACEPOCH ' .. (epoch or '')) end
local entries = redis.call('XRANGE', KEYS[2], '-', ARGV[2], 'COUNT', ARGV[4])
local ids, last = {}, ''
for i = 1, #entries do
  local f = entries[i][2]
  local appended = f[1] == 'i' and string.match(f[4] or '', '^[^\n]*\n(%d+)\n')
  if not appended or tonumber(appended) >= tonumber(ARGV[3]) then break end
  ids[#ids+1], last = f[2], entries[i][1]
end
if #ids == 0 then return {0, ''} end
redis.call('HDEL', KEYS[3], unpack(ids))
local e, n = string.match(last, '^(%d+)-(%d+)$')
redis.call('XTRIM', KEYS[2], 'MINID', '=', e .. '-' .. string.format('%.0f', tonumber(n) + 1))
redis.call('HSET', KEYS[4], 't', last)
return {#ids, last}
`)

// verifyScript returns entries of a topic, the position that the index has for each,
// the number of entries and the number of ids. If the stream has expired and its index
// is about to expire, it returns an empty result.
//
//	KEYS stream, ids   ARGV from, limit
var verifyScript = rueidis.NewLuaScript(`
if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('PTTL', KEYS[2]) >= 0 then return {{}, {}, 0, 0} end
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
local places = {}
for i = 1, #entries do
  local f = entries[i][2]
  places[i] = f[1] == 'i' and redis.call('HGET', KEYS[2], f[2])
end
return {entries, places, redis.call('XLEN', KEYS[1]), redis.call('HLEN', KEYS[2])}
`)
