#include "gui/editor/scenario_text.hpp"

#include "gui/editor/json_place.hpp"
#include "gui/editor/scenario_document.hpp"

#include <QFontDatabase>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QRegularExpression>
#include <QToolTip>

#include <algorithm>

namespace orrery {
namespace {

// Colours that stand out enough on either ground.
struct Inks {
    QColor key, text, number, word, comment, problem;
};
Inks inks(const QPalette& palette) {
    const bool dark = palette.color(QPalette::Base).lightness() < 128;
    if (dark) return {QColor(0x7cc4ff), QColor(0x9fd8a0), QColor(0xf2b26b), QColor(0xd9a6e8), QColor(0x9aa2ad), QColor(0xff8a70)};
    return {QColor(0x0b57a4), QColor(0x1d6b33), QColor(0x9a4a00), QColor(0x7a3191), QColor(0x666d76), QColor(0xc62f16)};
}

// UTF-8 offsets to QTextDocument positions.
int position(const std::string& text, std::size_t byte) {
    return static_cast<int>(QString::fromUtf8(text.data(), static_cast<qsizetype>(std::min(byte, text.size()))).size());
}

} // namespace

void JsonHighlighter::highlightBlock(const QString& text) {
    static const QRegularExpression words(QStringLiteral(R"((//.*$)|("(?:[^"\\]|\\.)*")(\s*:)?|(-?\b\d[\d.eE+-]*)|\b(true|false|null)\b)"));
    const auto* editor = qobject_cast<QWidget*>(parent());
    const Inks ink = inks(editor ? editor->palette() : QPalette());
    for (auto it = words.globalMatch(text); it.hasNext();) {
        const QRegularExpressionMatch m = it.next();
        const auto paint = [&](int group, const QColor& colour) {
            setFormat(static_cast<int>(m.capturedStart(group)), static_cast<int>(m.capturedLength(group)), colour);
        };
        if (m.hasCaptured(1))
            paint(1, ink.comment);
        else if (m.hasCaptured(2))
            paint(2, m.hasCaptured(3) ? ink.key : ink.text);
        else if (m.hasCaptured(4))
            paint(4, ink.number);
        else
            paint(5, ink.word);
    }
}

ScenarioText::ScenarioText(QWidget* parent) : QPlainTextEdit(parent) {
    setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    setUndoRedoEnabled(false); // the document's stack does it
    setLineWrapMode(QPlainTextEdit::NoWrap);
    setTabChangesFocus(true);
    setTabStopDistance(4 * fontMetrics().horizontalAdvance(QLatin1Char(' ')));
    setAccessibleName(tr("Text of the scenario"));
    auto* highlighter = new JsonHighlighter(static_cast<QObject*>(this));
    highlighter->setDocument(QPlainTextEdit::document());
    connect(this, &QPlainTextEdit::textChanged, this, [this] {
        if (!showing_ && scenario_) scenario_->type(toPlainText().toStdString());
    });
    setReadOnly(true);
}

void ScenarioText::setDocument(ScenarioDocument* document) {
    if (scenario_) scenario_->disconnect(this);
    scenario_ = document;
    setReadOnly(!document);
    if (scenario_) connect(scenario_, &ScenarioDocument::changed, this, &ScenarioText::show);
    show();
}

// Only what differs is replaced: the cursor and the view stay where they are.
void ScenarioText::show() {
    const QString now = toPlainText(), wanted = scenario_ ? QString::fromStdString(scenario_->text()) : QString{};
    if (now != wanted) {
        const auto [a, b] = std::mismatch(now.begin(), now.end(), wanted.begin(), wanted.end());
        const qsizetype same = a - now.begin(), most = std::min(now.size(), wanted.size()) - same;
        qsizetype tail = 0;
        while (tail < most && now[now.size() - 1 - tail] == wanted[wanted.size() - 1 - tail]) ++tail;
        showing_ = true;
        QTextCursor cursor(QPlainTextEdit::document());
        cursor.setPosition(static_cast<int>(same));
        cursor.setPosition(static_cast<int>(now.size() - tail), QTextCursor::KeepAnchor);
        cursor.insertText(wanted.mid(same, wanted.size() - same - tail));
        showing_ = false;
    }
    underline();
}

void ScenarioText::underline() {
    QList<QTextEdit::ExtraSelection> marks;
    if (scenario_) {
        const std::string& text = scenario_->text();
        const JsonPlaces places = json_places(text);
        for (const Problem& p : scenario_->parsed().problems) {
            std::size_t begin = 0, end = 0;
            if (places.error_at) {
                begin = std::min(*places.error_at, text.size());
                end = begin + 1;
            } else if (const auto place = nearest_place(places, p.where)) {
                begin = place->begin;
                end = place->kind == '{' || place->kind == '[' ? place->begin + 1 : place->end;
                if (place->kind == '{' && place->key_end > place->key_begin) {
                    begin = place->key_begin;
                    end = place->key_end;
                }
            }
            QTextEdit::ExtraSelection mark;
            mark.cursor = QTextCursor(QPlainTextEdit::document());
            mark.cursor.setPosition(std::max(0, std::min(position(text, begin), static_cast<int>(toPlainText().size()) - 1)));
            mark.cursor.setPosition(std::min(position(text, end), static_cast<int>(toPlainText().size())), QTextCursor::KeepAnchor);
            mark.format.setUnderlineStyle(QTextCharFormat::WaveUnderline);
            mark.format.setUnderlineColor(inks(palette()).problem);
            mark.format.setToolTip(QString::fromStdString(p.what));
            marks << mark;
        }
    }
    setExtraSelections(marks);
}

void ScenarioText::jumpTo(const std::string& pointer) {
    if (!scenario_) return;
    const JsonPlaces places = json_places(scenario_->text());
    const auto place = nearest_place(places, pointer);
    QTextCursor cursor = textCursor();
    cursor.setPosition(position(scenario_->text(), places.error_at ? *places.error_at : place ? place->begin : 0));
    setTextCursor(cursor);
    ensureCursorVisible();
    setFocus();
}

// Undo and redo belong to the window's actions.
bool ScenarioText::event(QEvent* event) {
    if (event->type() == QEvent::ShortcutOverride) {
        const auto* key = static_cast<QKeyEvent*>(event);
        if (key->matches(QKeySequence::Undo) || key->matches(QKeySequence::Redo)) {
            event->ignore();
            return true;
        }
    }
    return QPlainTextEdit::event(event);
}

bool ScenarioText::viewportEvent(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QPlainTextEdit::viewportEvent(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const int at = cursorForPosition(help->pos()).position();
    QString text;
    for (const QTextEdit::ExtraSelection& mark : extraSelections())
        if (at >= mark.cursor.selectionStart() && at <= mark.cursor.selectionEnd())
            text += (text.isEmpty() ? QString{} : QStringLiteral("\n")) + mark.format.toolTip();
    if (text.isEmpty())
        QToolTip::hideText();
    else
        QToolTip::showText(help->globalPos(), text, viewport());
    return true;
}

void ScenarioText::changeEvent(QEvent* event) {
    if (event->type() == QEvent::PaletteChange)
        if (auto* highlighter = findChild<JsonHighlighter*>()) highlighter->rehighlight();
    QPlainTextEdit::changeEvent(event);
}

} // namespace orrery
