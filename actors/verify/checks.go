package verify

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"

	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
)

// check is a statement that must be true of everything that is stored: an index of
// statements.
type check int

// statement is what a check reports. A check of two multisets says in addition what it means
// that a member is missing, or that no event explains it, and which values a member has: a
// word in braces stands for the next of its bytes.
type statement struct {
	name, says                 string
	missing, unfounded, member string
}

// statements has all checks, in the order in which they are reported.
var statements []statement

func single(name, says string) check { return multiset(name, says, "", "", "") }

func multiset(name, says, missing, unfounded, member string) check {
	statements = append(statements, statement{name, says, missing, unfounded, member})
	return check(len(statements) - 1)
}

// Checks of single rows and events.
var (
	eventDecode         = single("event-decode", "every event is of a known kind and can be read")
	storedState         = single("state", "each stored state is what replaying its events gives, and is there where others read it")
	streamBegin         = single("stream-begin", "each stream begins with the event that makes it, under its own id")
	conversationHistory = single("history", "each conversation's history is one that the rules allow: a path of the status table, one ending, nothing after it")
	messageOrder        = single("message-order", "messages of a conversation ascend by id and live with it")
	messageRecord       = single("message-record", "each message event has its record, which says the same")
	feedOrder           = single("feed-order", "a conversation's messages lie in each feed in the conversation's order")
	recordCopy          = single("record-copy", "a recipient who lives elsewhere has the same record there")
	messageOwner        = single("message-owner", "a record names the organizations that own its agents")
	sameReceipts        = single("receipts", "receipts are the same at both homes that keep them")
	receiptsPlace       = single("receipts-place", "receipts kept by message are of messages whose recipient lives elsewhere")
	feedArrival         = single("feed-arrival", "no feed entry is older than its message")
	statusUnderway      = single("status-underway", "status changes underway are the newest of their conversation")
	kidRows             = single("kid-rows", "each key of an agent is found by its thumbprint")
	pollRows            = single("poll-rows", "each poll token is found by its hash")
	onceRows            = single("once-rows", "each idempotency key stands for one message, which it made")
	knownTables         = single("tables", "every row is of a known table")
	queuedMessages      = single("queued-messages", "queued messages can be decoded by the actors that they are for")
	quarantined         = single("quarantine", "every queued message could be decoded by the actor that it was for")
	organizationHome    = single("organization-home", "an organization lives where its slug is looked for")
	deliveries          = single("deliveries", "what a webhook wants of its agent's feed became a job, once, in the feed's order")
	taskRows            = single("task-rows", "each row of a conversation that an agent has begun with another says what its first message says, and is there where the agent's list counts as read")
	listRows            = single("list-rows", "each row that a feed entry gave to an agent's list says what the entry says, and is there where the entries count as listed")
	cardContent         = single("card-content", "each card lies in the slot of its agent, can be read, and is stored as this release writes it")
	keyPackageContent   = single("key-package-content", "each MLS KeyPackage lies in the slot of its agent and is the one that its key names")
	activityRows        = single("activity-rows", "each hour of activity is of an agent, and lies in its slot")
	tokenRows           = single("token-rows", "each hour of a credential's last token lies in the slot of its organization")
	registrations       = single("registrations", "a solved challenge has made its organization")
	keyLogEntries       = single("key-log-entries", "entries of the key log are numbered without gaps, name the keys that the agent had, and lie where they are looked for")
	workloadIdentities  = single("workload-identities", "each SPIFFE id finds the organization that has proven it")
	groupHistory        = single("group-history", "each group's history is one that its rules allow: seats, requests and votes follow from each other")
	seatsUnderway       = single("seats-underway", "each seat that is kept is being asked or answered for, and no other is")
	broadcastReaders    = single("broadcast-readers", "a broadcast has a copy for each who was a member then, and for nobody else")
	isolation           = single("isolation", "an agent of an isolated group was never in another at the same time")
)

// Checks that compare the members that events imply with those that are stored.
var (
	messageRecords = multiset("message-records", "each message record belongs to a message event",
		"the conversation has the message and its record is not there: it cannot be read", "a record of a message that no conversation has", "message {id}")
	farRecords = multiset("far-records", "each copy of a record belongs to a message for somebody who lives there",
		"the copy for the recipient's home is missing", "a copy of a record that nobody there receives", "slot {uint16}, message {id}")
	feedEntries = multiset("feed-entries", "each message is in its recipient's feed once, and nothing else is",
		"the message is not in the recipient's feed: it was never delivered", "the feed has a message that no conversation has, or has it twice", "feed of agent {id}, message {id}, type hash {rest}")
	statusEntries = multiset("status-entries", "each status change is in each participant's feed once, in order",
		"the change is not in the participant's feed", "the feed has a change that did not happen", "feed of agent {id}, conversation {id}, change {uint32}, to {text}")
	conversationLists = multiset("conversation-lists", "each conversation is in the list of both its participants",
		"the conversation is not in the agent's list", "the list has a conversation that the agent takes no part in, or has it twice", "agent {id}, conversation {id}")
	quota = multiset("quota", "what an organization used on a day is what it sent that day",
		"messages were sent and not counted", "slots are counted and nothing was sent for them", "journal {uint16}, organization {id}, day {uint32}")
	slugRows = multiset("slug-rows", "each slug finds its organization",
		"the slug does not find the organization: it cannot sign in by it", "a slug that its organization does not have", "organization {id}, slug with the hash {rest}")
	slugClaims = multiset("slug-claims", "each slug is claimed by the organization that has it",
		"nobody claims the slug: it can be taken twice", "a claim of a slug by an organization that does not have it", "claim {id}, organization {id}")
	clientRows = multiset("client-rows", "each credential finds its organization",
		"the client id does not find its organization: it cannot sign in", "a client id of an organization that does not have the credential", "client {id}, organization {id}")
	nameRows = multiset("name-rows", "each agent is found by its name",
		"the name does not find the agent", "a name that its agent does not have", "organization {id}, agent {id}, name with the hash {rest}")
	rosterRows = multiset("roster-rows", "each agent is on its organization's roster, in order of creation",
		"the agent is missing from the roster", "a place on the roster that the organization did not give", "organization {id}, place {uint64}, agent {id}")
	agentsOfOrgs = multiset("agents", "an organization's agents are those that exist",
		"the organization counts an agent that does not exist", "an agent that its organization does not know", "organization {id}, agent {id}")
	retirements = multiset("retirements", "each revoked agent is counted once",
		"a revoked agent is counted as active", "an agent is counted out that was not revoked, or twice", "organization {id}, agent {id}")
	timersDue = multiset("timers-due", "each live request has the timer that ends it, and each credential those that announce its end",
		"nothing ends the request, or announces the end of the credential", "a timer that nobody set", "stream {byte}/{id}, due {time}")
	cardRows = multiset("card-rows", "each agent's card is stored as its events say: when, under which number, and who may see it",
		"the agent published a card that is not stored so", "a card that its agent did not publish so", "card of agent {id}")
	keyPackages = multiset("key-packages", "each agent has as many MLS KeyPackages, claimed and unclaimed, as its events say",
		"a KeyPackage is not there: it cannot be claimed, or could be uploaded again", "a KeyPackage that its agent does not keep, or did not hand out", "agent {id}, {use}")
	workloadClaims = multiset("workload-claims", "each claim of a SPIFFE id has its row, with the same organization",
		"a claim without a row: nobody else can prove the SPIFFE id, and its organization neither", "a row without a claim: two organizations can prove the SPIFFE id", "slot {uint16}, organization {id}")
	groupNameRows = multiset("group-name-rows", "each group is found by its name",
		"the name does not find the group: it can be given twice", "a name that its group does not have", "organization {id}, group {id}, name with the hash {rest}")
	groupRosterRows = multiset("group-roster-rows", "each group is listed under its organization, in order of creation",
		"the group is missing from the list", "a place on the list that the organization did not give", "organization {id}, place {uint64}, group {id}")
	groupsOfOrgs = multiset("groups", "an organization's groups are those that exist",
		"the organization counts a group that does not exist", "a group that its organization does not know", "organization {id}, group {id}")
	groupEndings = multiset("group-endings", "each deleted group is counted once",
		"a deleted group is counted as one that exists", "a group is counted out that was not deleted, or twice", "organization {id}, group {id}")
	memberships = multiset("memberships", "members and their groups agree on who is in",
		"the group has a member that does not know of it", "the agent believes to be a member, and its group does not", "agent {id}, group {id}")
	concernRows = multiset("concern-rows", "each live request is noted with the agent that it is about",
		"the agent does not know of the request: it cannot answer it, nor end it when it is revoked", "a request is noted that is not live", "agent {id}, request {id}")
	requestRows = multiset("request-rows", "each settled request can be read, as it was settled",
		"the request was settled and cannot be read", "a row of a request that was not settled so", "group {id}, request {id}")
	placeRows = multiset("place-rows", "the row of an agent in a group lists its former and current seats",
		"the agent's seats are not noted: it does not find what it got there", "a place that nobody had, or that lists other seats", "group {id}, agent {id}")
	holderRows = multiset("holder-rows", "the first member that an organization ever had in a group is noted",
		"the organization does not find what its agents got in the group", "a first member that the organization did not have", "group {id}, organization {id}")
	groupNews = multiset("group-news", "what became of a group's members and requests is in the feeds of those whom it concerns, once",
		"the agent's feed does not have it", "a feed has what did not happen, or has it twice", "feed of agent {id}, group {id}, {news}")
	directoryRows = multiset("directory-rows", "the directory shows each public group as it is, and no other",
		"the directory does not show the group as it is", "the directory shows a group that is not so", "group {id}")
	groupConversations = multiset("group-conversations", "a group's conversations are those that it began",
		"the group has begun a conversation that is not there or is not its own", "a conversation in a group that did not begin it", "group {id}, conversation {id}")
	mlsCommitRows = multiset("mls-commit-rows", "each commit of an MLS group can be read, as it was accepted",
		"members that were away cannot take the commit, or take another one", "a commit that the group did not accept", "group {id}, epoch {uint64}")
	mlsGroupInfoRows = multiset("mls-group-info-rows", "the GroupInfo of each MLS group is that of its epoch",
		"nobody can join the MLS group by it", "a GroupInfo that the group did not accept", "group {id}")
	mlsRemovalRows = multiset("mls-removal-rows", "the row of an agent names the commit that last removed it",
		"the agent does not see the commit that removed it", "no commit removed the agent then", "group {id}, agent {id}")
	mlsWelcomeCounts = multiset("mls-welcome-counts", "as many agents await a Welcome as are counted",
		"a Welcome is kept for an agent that does not await it", "the Welcome is dropped before the agent has it", "group {id}, epoch {uint64}")
	mlsWelcomeRows = multiset("mls-welcome-rows", "each Welcome that agents await can be read, and no other is there",
		"an agent awaits a Welcome that cannot be read", "nobody awaits the Welcome", "group {id}, epoch {uint64}")
	webhookRows = multiset("webhook-rows", "each webhook is noted with its agent, as it is",
		"the webhook is not noted so: nobody wakes it", "a note of a webhook that is not so", "agent {id}, webhook {id}")
	deliveryRows = multiset("delivery-rows", "each delivery job that a webhook has made can be read",
		"the job is not there: it is never attempted", "a job that its webhook did not make", "webhook {id}, job {uint64}")
	deliveryCounts = multiset("delivery-counts", "a webhook counts its jobs as they are",
		"the webhook counts a job that is not so", "a job that its webhook does not count so", "webhook {id}, status {status}")
	retryRows = multiset("retry-rows", "each job that waits for another attempt is found when it is due, and no other",
		"nobody finds the job when it is due", "a job is found that does not wait", "webhook {id}, job {uint64}")
	keyLogLeaves = multiset("key-log", "each event about an agent's keys is in the key log once, and nothing else is",
		"an event about keys is not in the key log", "the key log has a leaf that no agent's event made, or has it twice", "leaf {rest}")
	keyLogHashes = multiset("key-log-hashes", "the stored hashes of the key log are those of its leaves",
		"hashes of the tree are missing or differ: proofs fail", "hashes of a leaf that the key log does not have", "leaf {uint64}")
	keyLogPlaces = multiset("key-log-places", "each leaf of the key log is found by what it is",
		"the leaf is not found: its entry counts as not logged yet", "a number of a leaf that is not there", "leaf {rest}")
)

// describe names a member of a multiset.
func describe(member string, rest []byte) string {
	return field.ReplaceAllStringFunc(member, func(word string) string {
		take := func(n int) []byte {
			taken := rest[:n]
			rest = rest[n:]
			return taken
		}
		switch word {
		case "{id}":
			return idText(take(16))
		case "{byte}":
			return fmt.Sprint(take(1)[0])
		case "{uint16}":
			return fmt.Sprint(binary.BigEndian.Uint16(take(2)))
		case "{uint32}":
			return fmt.Sprint(binary.BigEndian.Uint32(take(4)))
		case "{uint64}":
			return fmt.Sprint(binary.BigEndian.Uint64(take(8)))
		case "{time}":
			return time.UnixMilli(int64(binary.BigEndian.Uint64(take(8)))).UTC().Format(time.RFC3339)
		case "{status}":
			return webhook.Status(take(1)[0]).String()
		case "{use}":
			return [...]string{"KeyPackage", "KeyPackage of last resort", "claimed KeyPackage"}[take(1)[0]]
		case "{news}":
			kind, request := record.GroupNews(rest)
			if epoch, mls := record.MLSNews(rest); mls {
				return fmt.Sprintf("%s in epoch %d", kind, epoch)
			}
			return fmt.Sprintf("%s %s", kind, request)
		case "{text}":
			return string(rest)
		}
		return hex.EncodeToString(rest)
	})
}

var field = regexp.MustCompile(`{[a-z0-9]+}`)

func idText(b []byte) string { return parley.IDFromBytes[parley.AnyID](b[:16]).String() }
