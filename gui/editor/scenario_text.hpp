// The scenario as text: coloured, mistakes underlined where they are, edits through the document so that form and text share one undo.
#pragma once

#include <QPlainTextEdit>
#include <QSyntaxHighlighter>

#include <string>

namespace orrery {

class ScenarioDocument;

class JsonHighlighter : public QSyntaxHighlighter {
    Q_OBJECT
  public:
    using QSyntaxHighlighter::QSyntaxHighlighter;

  protected:
    void highlightBlock(const QString& text) override;
};

class ScenarioText : public QPlainTextEdit {
    Q_OBJECT
  public:
    explicit ScenarioText(QWidget* parent = nullptr);
    void setDocument(ScenarioDocument* document);
    void jumpTo(const std::string& pointer);

  protected:
    bool event(QEvent* event) override;
    bool viewportEvent(QEvent* event) override; // tooltips: what is wrong here
    void changeEvent(QEvent* event) override;

  private:
    using QPlainTextEdit::setDocument;
    void show(); // the document's text; the cursor stays
    void underline();
    ScenarioDocument* scenario_ = nullptr;
    bool showing_ = false;
};

} // namespace orrery
