//! What a reader sees of what a writer does.

use super::*;

const SMALL: ModelIndex = ModelIndex(0);
const LARGE: ModelIndex = ModelIndex(1);
const END: TokenId = 99;

fn ended() -> Ended {
    Ended {
        prompt_tokens: 1,
        answer_tokens: 2,
        tokens_by_model: vec![2],
        ..Ended::empty(Finish::Stop, 1)
    }
}

fn written(token: TokenId) -> Written {
    Written {
        token,
        model: SMALL,
        text_offset: 0,
        after_handoff: false,
        logprobs: None,
        steps: Vec::new(),
    }
}

#[test]
fn pieces_join_while_nobody_reads_and_end_comes_last_and_once() {
    let (writer, mut reader) = answer_stream(RequestId(1), 0, None, Box::new(|_| {}));
    writer.write("a", Some(written(1)));
    writer.write("b", Some(written(2)));
    writer.end(ended());
    writer.end(Ended {
        finish: Finish::Length,
        ..ended()
    });
    let piece = Event::Piece {
        text: "ab".into(),
        tokens: vec![written(1), written(2)],
        assumed: Vec::new(),
    };
    assert_eq!(reader.next_blocking(), Some(piece));
    assert_eq!(reader.next_blocking(), Some(Event::End(ended())));
    assert_eq!(reader.next_blocking(), None);
    drop(reader);
    assert!(
        !writer.is_abandoned(),
        "a reader that read to the end did not leave early"
    );
}

#[test]
fn an_answer_is_failed_only_where_its_request_is_and_nothing_follows() {
    let (writer, mut reader) = answer_stream(RequestId(1), 0, None, Box::new(|_| {}));
    let handle = writer.handle();
    assert!(!handle.fail_at(ModelIndex(0), "it waits in the queue"));
    writer.moves_to(ModelIndex(1));
    assert!(!handle.fail_at(ModelIndex(0), "it is elsewhere"));
    assert!(handle.fail_at(ModelIndex(1), "stalled"));
    assert!(!handle.fail_at(ModelIndex(1), "again"), "once only");
    assert!(writer.is_abandoned());
    writer.write("late", None);
    writer.end(ended());
    let Some(Event::End(end)) = reader.next_blocking() else {
        panic!("the end comes first")
    };
    assert_eq!(end.finish, Finish::Failed("stalled".into()));
    assert_eq!(reader.next_blocking(), None);
}

#[test]
fn leaving_early_is_told_once_and_seen_by_the_writer() {
    let left = Arc::new(Mutex::new(Vec::new()));
    let seen = left.clone();
    let (writer, reader) = answer_stream(RequestId(7), 0, None, Box::new(move |id| seen.lock().unwrap().push(id)));
    drop(reader);
    assert!(writer.is_abandoned());
    assert_eq!(*left.lock().unwrap(), [RequestId(7)]);
}

fn own(token: TokenId) -> Assumed {
    Assumed {
        token,
        model: SMALL,
        asked: None,
    }
}

fn asked(token: TokenId) -> Assumed {
    Assumed {
        asked: Some(LARGE),
        ..own(token)
    }
}

fn by(model: ModelIndex, token: TokenId) -> Option<Written> {
    Some(Written {
        model,
        ..written(token)
    })
}

/// A stream whose reader wants to know what is assumed, or the steps, or both.
fn assuming(tokens: bool, steps: bool) -> (AnswerWriter, AnswerStream) {
    let assumptions = Assumptions::new(Kept { tokens, steps }, [END].into());
    answer_stream(RequestId(1), 0, assumptions, Box::new(|_| {}))
}

/// The next piece: its tokens and what is assumed behind them; `None` if there is no news.
fn news(reader: &mut AnswerStream) -> Option<(Vec<TokenId>, Vec<TokenId>)> {
    match reader.poll_next(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Event::Piece { tokens, assumed, .. })) => Some((
            tokens.iter().map(|written| written.token).collect(),
            assumed.iter().map(|assumed| assumed.token).collect(),
        )),
        Poll::Pending => None,
        other => panic!("{other:?} where a piece or nothing was expected"),
    }
}

#[test]
fn what_is_assumed_is_replaced_while_nobody_reads_and_leaves_as_it_is_settled() {
    let (writer, mut reader) = assuming(true, false);
    let draft = writer.draft().unwrap();
    draft.push(asked(1));
    draft.push(own(2));
    draft.push(asked(3));
    assert_eq!(news(&mut reader), Some((vec![], vec![1, 2, 3])), "the newest alone");
    assert_eq!(news(&mut reader), None, "nothing has changed");
    writer.write("a", by(LARGE, 1));
    assert_eq!(news(&mut reader), Some((vec![1], vec![2, 3])));
    writer.write("late", None);
    assert_eq!(
        news(&mut reader),
        Some((vec![], vec![2, 3])),
        "text alone settles nothing"
    );
    writer.write("b", by(SMALL, 2));
    writer.write("x", by(LARGE, 7));
    assert_eq!(
        news(&mut reader),
        Some((vec![2, 7], vec![])),
        "the large model wrote another"
    );
    draft.push(own(4));
    assert_eq!(news(&mut reader), None, "the draft does not know yet that it was wrong");
    drop(draft);
    assert_eq!(news(&mut reader), None);
}

#[test]
fn a_draft_of_the_past_changes_nothing() {
    let (writer, mut reader) = assuming(true, false);
    let before = writer.draft().unwrap();
    before.push(asked(1));
    let draft = writer.draft().unwrap();
    draft.push(asked(5));
    before.push(own(2));
    drop(before);
    assert_eq!(news(&mut reader), Some((vec![], vec![5])));
    // Right, but the request stays at the large model: nothing behind it is the draft's any more.
    writer.write("a", by(LARGE, 5));
    writer.write("b", by(LARGE, 6));
    draft.push(own(7));
    assert_eq!(news(&mut reader), Some((vec![5, 6], vec![])));
    let draft = writer.draft().unwrap();
    draft.push(asked(8));
    drop(draft);
    assert_eq!(
        news(&mut reader),
        Some((vec![], vec![])),
        "it was shown, or may have been, and is gone"
    );
}

#[test]
fn nothing_is_assumed_behind_what_ends_the_answer() {
    let (writer, mut reader) = assuming(true, false);
    let draft = writer.draft().unwrap();
    for token in [1, END, 2] {
        draft.push(asked(token));
    }
    assert_eq!(news(&mut reader), Some((vec![], vec![1])));
    draft.push(own(3));
    assert_eq!(news(&mut reader), None);
    writer.write("", by(LARGE, 1));
    assert_eq!(news(&mut reader), Some((vec![1], vec![])));
    writer.write_last("", by(LARGE, END));
    assert_eq!(news(&mut reader), Some((vec![END], vec![])), "and not the third");
    draft.push(own(4));
    writer.end(ended());
    assert!(
        writer.draft().is_none(),
        "an answer that has ended is not written ahead"
    );
    draft.push(own(4));
    drop(draft);
    assert!(matches!(reader.next_blocking(), Some(Event::End(_))));
    assert_eq!(reader.next_blocking(), None);
}

/// The steps of the writer come with the tokens that it wrote, or at the handoff if another model is asked; those of tokens that
/// are not confirmed come with none.
#[test]
fn steps_ahead_come_with_their_tokens() {
    let (writer, mut reader) = assuming(false, true);
    let draft = writer.draft().unwrap();
    let step = |candidate, to| StepNote {
        model: SMALL,
        candidate,
        signals: Box::new([]),
        to,
    };
    draft.push(asked(1));
    draft.stage(step(2, SMALL));
    draft.push(own(2));
    draft.stage(step(50, SMALL));
    draft.stage(step(3, LARGE));
    draft.push(asked(3));
    assert_eq!(news(&mut reader), None, "nobody wants to see what is assumed");
    assert_eq!(
        writer.take_step_ahead(SMALL),
        None,
        "the first step was the request's own"
    );
    writer.write("", by(LARGE, 1));
    assert_eq!(writer.take_step_ahead(SMALL), None, "nobody is asked about the second");
    writer.write("", by(SMALL, 2));
    assert_eq!(writer.take_step_ahead(LARGE), None, "it is the small model's");
    assert_eq!(writer.take_step_ahead(SMALL), Some(step(3, LARGE)));
    assert_eq!(writer.take_step_ahead(SMALL), None, "once");
    writer.write("", by(LARGE, 4));
    let Some(Event::Piece { tokens, assumed, .. }) = reader.next_blocking() else {
        panic!("three tokens are committed")
    };
    let steps: Vec<_> = tokens.into_iter().map(|written| written.steps).collect();
    assert_eq!(steps, [vec![], vec![step(2, SMALL)], vec![]]);
    assert_eq!(assumed, []);
    writer.end(ended());
    assert!(reader.next_blocking().is_some());
}

#[test]
fn nothing_is_kept_for_readers_that_do_not_ask() {
    assert!(Assumptions::new(Kept::default(), [END].into()).is_none());
    let (writer, _reader) = answer_stream(RequestId(1), 0, None, Box::new(|_| {}));
    assert!(writer.draft().is_none() && writer.take_step_ahead(SMALL).is_none());
}
