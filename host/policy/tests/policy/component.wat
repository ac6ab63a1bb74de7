;; A policy written by hand. The test puts its own code at the places marked with double braces. Memory and log stand
;; in a module of their own, so that the log can be lowered into the memory before the policy is instantiated.
(component
  (type $contract (instance
    (type $u32 u32)
    (type $u64 u64)
    (export "model-index" (type $model-index (eq $u32)))
    (export "state-word" (type $state-word (eq $u64)))
    (type $numbers (list f64))
    (type $texts (list string))
    (type $value' (variant
      (case "boolean" bool) (case "number" f64) (case "text" string) (case "numbers" $numbers) (case "texts" $texts)))
    (export "value" (type $value (eq $value')))
    (type $option-info' (record
      (field "name" string) (field "summary" string) (field "default" $value) (field "per-request" bool)))
    (export "option-info" (type $option-info (eq $option-info')))
    (type $description' (record
      (field "name" string) (field "version" string) (field "summary" string) (field "options" (list $option-info))))
    (export "description" (type (eq $description')))
    (type $model-info' (record (field "name" string) (field "parameters" u64) (field "vocabulary" u32)))
    (export "model-info" (type $model-info (eq $model-info')))
    (type $deployment' (record (field "name" string) (field "models" (list $model-info)) (field "heads" $texts)))
    (export "deployment" (type (eq $deployment')))
    (type $setting' (record (field "name" string) (field "value" $value)))
    (export "setting" (type $setting (eq $setting')))
    (type $signal' (variant
      (case "entropy") (case "entropy-normalised") (case "top-k-entropy" u32) (case "max-probability")
      (case "top-k-logits" u32) (case "top-k-probabilities" u32) (case "head-score" string) (case "uniform" u32)
      (case "position") (case "newlines")))
    (export "signal" (type $signal (eq $signal')))
    (type $plan' (record
      (field "entry" $model-index) (field "state-words" u32) (field "signals" (list (list $signal)))
      (field "texts" bool)))
    (export "plan" (type (eq $plan')))
    (export "token" (type $token (eq $u32)))
    (type $request' (record
      (field "seed" u64) (field "uniform" f32) (field "prompt" (list $token)) (field "max-tokens" u32)
      (field "temperature" f32) (field "options" (list $setting))))
    (export "request" (type (eq $request')))
    (type $admission' (record (field "model" $model-index) (field "state" (list $state-word))))
    (export "admission" (type (eq $admission')))
    (type $batch' (record
      (field "candidates" (list $token)) (field "signals" (list f32)) (field "state" (list $state-word))
      (field "texts" string) (field "text-ends" (list u32))))
    (export "batch" (type (eq $batch')))
    (type $decisions' (record (field "destinations" (list $model-index)) (field "state" (list $state-word))))
    (export "decisions" (type (eq $decisions')))
    (type $step' (record
      (field "candidate" $token) (field "signals" (list f32)) (field "state" (list $state-word)) (field "text" string)))
    (export "step" (type (eq $step')))
    (type $parcel' (record (field "keep-candidate" bool) (field "state" (list $state-word))))
    (export "parcel" (type (eq $parcel')))))
  (import "tokenrouter:policy/types@{{version}}" (instance $types (type $contract)))
  (alias export $types "model-index" (type $model-index))
  (alias export $types "state-word" (type $state-word))
  (alias export $types "description" (type $description))
  (alias export $types "deployment" (type $deployment))
  (alias export $types "setting" (type $setting))
  (alias export $types "plan" (type $plan))
  (alias export $types "request" (type $request))
  (alias export $types "admission" (type $admission))
  (alias export $types "batch" (type $batch))
  (alias export $types "decisions" (type $decisions))
  (alias export $types "step" (type $step))
  (alias export $types "parcel" (type $parcel))
  (type $level' (enum "debug" "info" "warn" "error"))
  (import "level" (type $level (eq $level')))
  (import "log" (func $log (param "level" $level) (param "message" string)))
  {{imports}}

  ;; Arguments are put behind 32 KiB, one call over the other: a call's arguments are read before the next call.
  (core module $heap
    (memory (export "memory") {{memory pages}})
    (global $free (mut i32) (i32.const 32768))
    (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32)
      (local $at i32)
      (if (i32.gt_u (i32.add (global.get $free) (local.get $size)) (i32.const 65000))
        (then (global.set $free (i32.const 32768))))
      (local.set $at (global.get $free))
      (global.set $free (i32.and (i32.add (i32.add (global.get $free) (local.get $size)) (i32.const 7)) (i32.const -8)))
      (local.get $at)))
  (core instance $heap (instantiate $heap))
  (alias core export $heap "memory" (core memory $memory))
  (alias core export $heap "realloc" (core func $realloc))
  (core func $log (canon lower (func $log) (memory $memory) string-encoding=utf8))

  ;; Answers are put at fixed addresses: 1024 texts, 2048 description, 3072 plan, 4096 and up the calls' answers.
  (core module $policy
    (import "host" "memory" (memory 1))
    (import "host" "log" (func $log (param $level i32) (param $text i32) (param $bytes i32)))
    {{data}}
    {{declarations}}
    (func (export "describe") (result i32)
      {{describe}}
      (i32.const 2048))
    (func (export "init") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
      {{init}}
      (i32.const 3072))
    ;; Admits to model 0 with the seed as the state.
    (func (export "admit")
      (param $seed i64) (param f32) (param $prompt i32) (param $tokens i32) (param i32 f32 i32 i32) (result i32)
      {{admit}}
      (i64.store (i32.const 4128) (local.get $seed))
      (i32.store8 (i32.const 4096) (i32.const 0))
      (i32.store (i32.const 4100) (i32.const 0))
      (i32.store (i32.const 4104) (i32.const 4128))
      (i32.store (i32.const 4108) (i32.const 1))
      (i32.const 4096))
    ;; Sends every row to the model its candidate names, and leaves the state.
    (func (export "route")
      (param $at i32) (param $candidates i32) (param $rows i32) (param i32 i32) (param $state i32) (param $words i32)
      (param i32 i32 i32 i32) (result i32)
      {{route}}
      (i32.store (i32.const 4200) (local.get $candidates))
      (i32.store (i32.const 4204) (local.get $rows))
      (i32.store (i32.const 4208) (local.get $state))
      (i32.store (i32.const 4212) (local.get $words))
      (i32.const 4200))
    ;; Keeps a candidate that is even.
    (func (export "send")
      (param $at i32) (param $to i32) (param $candidate i32) (param i32 i32) (param $state i32) (param $words i32)
      (param i32 i32) (result i32)
      {{send}}
      (i32.store8 (i32.const 4300) (i32.eqz (i32.and (local.get $candidate) (i32.const 1))))
      (i32.store (i32.const 4304) (local.get $state))
      (i32.store (i32.const 4308) (local.get $words))
      (i32.const 4300))
    (func (export "receive")
      (param $at i32) (param $from i32) (param $keep i32) (param $state i32) (param $words i32) (result i32)
      {{receive}}
      (i32.store (i32.const 4400) (local.get $state))
      (i32.store (i32.const 4404) (local.get $words))
      (i32.const 4400)))
  (core instance $host (export "memory" (memory $memory)) (export "log" (func $log)))
  (core instance $policy (instantiate $policy (with "host" (instance $host))))

  (func $describe (result $description)
    (canon lift (core func $policy "describe") (memory $memory) string-encoding=utf8))
  (func $init (param "deployment" $deployment) (param "config" (list $setting)) (result (result $plan (error string)))
    (canon lift (core func $policy "init") (memory $memory) (realloc $realloc) string-encoding=utf8))
  (func $admit (param "request" $request) (result (result $admission (error string)))
    (canon lift (core func $policy "admit") (memory $memory) (realloc $realloc) string-encoding=utf8))
  (func $route (param "at" $model-index) (param "batch" $batch) (result $decisions)
    (canon lift (core func $policy "route") (memory $memory) (realloc $realloc) string-encoding=utf8))
  (func $send (param "at" $model-index) (param "to" $model-index) (param "step" $step) (result $parcel)
    (canon lift (core func $policy "send") (memory $memory) (realloc $realloc) string-encoding=utf8))
  (func $receive
    (param "at" $model-index) (param "from" $model-index) (param "parcel" $parcel) (result (list $state-word))
    (canon lift (core func $policy "receive") (memory $memory) (realloc $realloc)))
  (export "describe" (func $describe))
  (export "init" (func $init))
  (export "admit" (func $admit))
  (export "route" (func $route))
  (export "send" (func $send))
  (export "receive" (func $receive)))
