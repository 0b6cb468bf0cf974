package scan

// slots is a set of roles that a word can play in a rule.
type slots uint64

// The roles. A word may have several.
const (
	sIgnore    slots = 1 << iota // tells a reader to stop following something
	sPrior                       // points at what came before
	sBefore                      // above, before, where they may stand alone behind their noun
	sAll                         // all, any, every
	sEvery                       // everything
	sTarget                      // instructions, prompts, directives
	sRules                       // rules, policies, commands, and other words with more everyday uses
	sNot                         // not, never
	sFollow                      // follow, obey
	sInstead                     // instead
	sThese                       // these, the following, my, new
	sAct                         // act, behave, respond
	sAs                          // as
	sGot                         // given, received: what was said before, as a word behind its noun
	sPretend                     // pretend, imagine
	sNo                          // no, without, free of
	sLimit                       // restrictions, filters, ethics
	sYou                         // you
	sYour                        // your
	sAre                         // are, become
	sNow                         // now
	sPersona                     // DAN, administrator, unrestricted
	sFree                        // unrestricted, uncensored
	sMode                        // mode
	sNew                         // new
	sSystem                      // system
	sPrompt                      // prompt, message, as in "system prompt"
	sReveal                      // reveal, print, repeat
	sHidden                      // hidden, secret, internal, initial
	sTool                        // tool, function
	sCall                        // call, use, invoke
	sAlways                      // always
	sFirst                       // first
	sOther                       // other
	sTell                        // tell, mention, inform
	sUser                        // the user
	sWithout                     // without
	sAsking                      // asking, telling, confirmation
	sSend                        // send, forward, upload
	sSecret                      // password, credentials, API key
	sPlace                       // a URL or an address
	sTo                          // to, at
	sImportant                   // important
	sAssistant                   // assistant, AI, model
	sFrom                        // from
	sIgnoring                    // ignoring, forgetting: told of more often than ordered
	sDo                          // do
	sAnything                    // anything
	sDisable                     // bypass, disable
	sSafety                      // safety, approval, moderation
	sQuestion                    // question, request
	sMe                          // me, us
	sTask                        // task
	sDone                        // complete, done
	sAnswer                      // answer
	sMention                     // says that what stands beside it is being talked about
	sText                        // text, words, conversation
	sGive                        // give, tell, write: like reveal, with more everyday uses
	sLifted                      // suspended, lifted, void
	sBound                       // bound, limited, restricted
	sDan                         // names that jailbreaks go by
	sReplace                     // override
	sOverride                    // override, inject: in names
	sLate                        // verbs of languages that put them last
)

// vocabulary lists the words of each role. All languages share one list: attacks mix them.
func vocabulary() []struct {
	slot  slots
	words string
} {
	return []struct {
		slot  slots
		words string
	}{
		{sIgnoring, `ignoring disregarding forgetting overriding`},
		{sIgnore, `ignore disregard forget overlook neglect discard dismiss bypass
			ignorer ignorez oublie oubliez oublier negligez ignoriere ignorier vergiss vergesse missachte ignora ignorad ignorar olvida olvide olvidar
			olvidate descarta omite dimentica dimenticare ignorare ignori esqueca esquece esquecer desconsidere negeer vergeet
			игнорируй игнорируйте проигнорируй проигнорируйте забудь забудьте zignoruj ignoruj zapomnij ignorera glom abaikan lupakan
			忽略 无视 忽视 忘记 忘掉 無視 تجاهل تجاهلوا انس ละเว้น เพิกเฉย`},
		{sLate, `ignorieren vergessen missachten 無視 忘れ 무시 잊어 नजरअंदाज नज़रअंदाज़ अनदेखा भूल bhool bhul bhulo nazarandaz unut yoksay
			gormezden`},
		{sPrior, `previous prior above earlier preceding past foregoing former before existing original initial previously
			vorherigen vorherige vorigen obigen bisherigen fruheren vorangegangenen precedentes precedente precedents anterieures anteriores
			anterior previas previos precedenti vorige eerdere bovenstaande предыдущие предыдущих прошлые poprzednie tidigare sebelumnya
			之前 以前 先前 上面 以上 前面 上述 此前 これまで 上記 이전 위의 पिछले पिछली السابقة pichle pichli pehle purane onceki`},
		{sBefore, `above before earlier previously beforehand`}, {sGot, `far given got received learned learnt`},
		{sAll, `all any every each alle todas todos toutes tous tutte tutti все всех 所有 全部 すべて 全て 모든 सभी sab saare جميع tum`},
		{sEvery, `everything anything alles todo tout tutto tudo всё`},
		{sTarget, `instruction instructions prompt prompts directive directives directions guideline guidelines guidance instruct
			anweisung anweisungen instrucciones instruccion indicaciones consignes consigne istruzioni instrucoes instructies инструкции
			инструкций инструкцию указания указаний instrukcje polecenia instruktioner instruksi perintah 指令 指示 提示 提示词 命令 지시 지침
			निर्देश निर्देशों التعليمات تعليمات nirdesh talimatlari talimatlar คำสั่ง คำแนะนำ`},
		{sRules, `rule rules policy policies command commands orders restriction restrictions constraint constraints programming
			safeguards protocols regeln befehle vorgaben reglas ordenes regles regole regras regels правила команды 规则 規則
			ルール 制約 制限 명령 규칙 नियम niyam الأوامر kurallari`},
		{sNot, `not never dont nicht`},
		{sFollow, `follow obey adhere comply heed listen`},
		{sInstead, `instead stattdessen`},
		{sThese, `these this following my new`},
		{sAct, `act acting behave respond operate function roleplay`},
		{sAs, `as`}, {sPretend, `pretend pretending imagine`},
		{sNo, `no without zero lacks lacking sin ohne sans senza sem free 没有 沒有 不受 无 無 なし ない 없 없이 없는 bina`},
		{sLimit, `restriction restrictions rule rules limits limitation limitations guideline guidelines filter filters filtering
			censorship guardrail guardrails constraint constraints ethics morals boundaries policy policies safeguards confines
			limitaciones restricciones restrictions limites einschrankungen limitazioni restrizioni limitacoes 限制 约束 約束 制限 制約 제한 제약`},
		{sYou, `you youre`}, {sYour, `your ur`}, {sAre, `are become youre`}, {sNow, `now`},
		{sPersona, `dan admin administrator root unrestricted uncensored jailbroken unfiltered unlimited unchained unbound evil developer
			sudo superuser hacker malicious rogue`},
		{sFree, `unrestricted uncensored jailbroken unfiltered unchained jailbreak`},
		{sMode, `mode`}, {sNew, `new updated`}, {sSystem, `system systems`},
		{sPrompt, `prompt prompts message messages instruction instructions`},
		{sReveal, `reveal print repeat show output display leak disclose expose dump recite paste enthulle zeige revela muestra affichez revelez
			mostra revele раскрой покажи 显示 输出 透露 泄露 表示 공개 출력 dikhao batao dikha bata`},
		{sGive, `share tell give gimme write return provide translate summarize rephrase`},
		{sHidden, `hidden secret confidential internal private initial original full exact entire`},
		{sTool, `tool tools`}, {sCall, `call calling use using run running invoke invoking`},
		{sAlways, `always must`}, {sFirst, `first`}, {sOther, `other`},
		{sTell, `tell mention inform notify reveal disclose alert warn`},
		{sUser, `user users human customer`}, {sWithout, `without`},
		{sAsking, `asking telling informing notifying confirmation approval permission consent alerting mentioning`},
		{sSend, `send forward email mail post upload exfiltrate transmit leak submit`},
		{sSecret, `password passwords passphrase credential credentials token tokens secret secrets apikey apikeys cookies keys`},
		{sPlace, `http https www attacker webhook url`}, {sTo, `to at`},
		{sImportant, `important`},
		{sAssistant, `assistant assistants ai model chatbot llm gpt chatgpt agent ia ki 助手 助理 アシスタント 어시스턴트 人工智能`},
		{sFrom, `from`}, {sDo, `do`}, {sAnything, `anything`},
		{sDisable, `bypass disable deactivate circumvent suspend evade`},
		{sSafety, `safety approval approvals moderation safeguards guardrails`},
		{sQuestion, `question questions request requests query`}, {sMe, `me us`},
		{sTask, `task`}, {sDone, `complete completed done finished enabled activated unlocked`}, {sAnswer, `answer`},
		{sMention, `example examples attack attacks phrase phrases pattern patterns such like detect detects detection injection injections
			quotes quoted says said saying paraphrases literal untrusted string wording classify annotate displays contains containing included include includes called named titled term terms attempt attempts blocked
			flagged fixture malicious adversarial payload payloads explains test tests`},
		{sText, `text texts content contents context conversation messages words input inputs output outputs information chat dialogue`},
		{sLifted, `suspended lifted void voided revoked negated cancelled canceled removed deactivated longer`},
		{sBound, `bound restricted constrained abide`}, {sDan, `dan stan dude aim jailbreak jailbroken`},
		{sReplace, `override`},
		{sOverride, `override inject bypass`},
	}
}
